"""A cluster that is broken on purpose: what `gpufleet up` starts, verbs that break it, and the doctor.

    def test_a_typo(patient: Patient) -> None:
        patient.apply(a_pod("typo", nodeSelector={"nvidia.com/gpu.product": "NVIDIA-H100"}))
        patient.finds("selector-matches-nothing", "Pod default/typo")

Each test gets the cluster healthy and leaves it so: what was applied is deleted, what was patched is put
back.
"""

import datetime as dt
import time
from collections.abc import Callable, Sequence
from typing import Any

import yaml

from gpufleet.doctor.checks import all_checks
from gpufleet.doctor.command import facts_of
from gpufleet.doctor.diagnosis import Diagnosis, FoundProblem, diagnose
from gpufleet.doctor.live.gathering import gathered
from gpufleet.localkube.access.api import Api, Object, RefusedError
from gpufleet.localkube.cluster import LocalCluster
from tests.waiting import pause_after, until

WAIT_S = 45.0
POLL_EVERY_S = 0.3
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = "application/merge-patch+json"


class Patient:
    """The cluster, and what was done to it."""

    def __init__(self, cluster: LocalCluster, api: Api) -> None:
        self.cluster = cluster
        self.api = api
        self._made: list[str] = []
        self._undo: list[tuple[str, Object]] = []

    def apply(self, *objects: Object | str) -> None:
        """Make these objects, given as values or as YAML; their namespaces have to be there."""
        for one in objects:
            documents = yaml.safe_load_all(one) if isinstance(one, str) else [one]
            for body in documents:
                collection = self._collection(body)
                self.api.call("POST", collection, body)
                self._made.append(f"{collection}/{body['metadata']['name']}")
                if "status" in body:
                    self._write_status(f"{collection}/{body['metadata']['name']}", body["status"])

    def define(self, group: str, version: str, *kinds: str, cluster: tuple[str, ...] = ()) -> None:
        """Let the server know kinds of others, those of ``cluster`` without a namespace, with any fields."""
        for kind in (*kinds, *cluster):
            body = a_definition(group, version, kind, namespaced=kind not in cluster)
            path = f"{DEFINITIONS}/{body['metadata']['name']}"
            self.until(lambda: self.api.request("POST", DEFINITIONS, body)[0] == 201)  # noqa: B023
            self._made.append(path)
            names = body["spec"]["names"]["plural"]
            self.until(lambda: self.api.request("GET", f"/apis/{group}/{version}/{names}")[0] == 200)  # noqa: B023

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds."""
        until(holds, WAIT_S)

    def _write_status(self, path: str, status: Object) -> None:
        try:
            self.api.call("PATCH", f"{path}/status", {"status": status}, MERGE)
        except RefusedError as refusal:
            if refusal.status != 404:  # a kind without a status of its own
                raise

    def patch(self, path: str, change: Object, back: Object) -> None:
        """Change an object by a merge patch; ``back`` is the patch that undoes it."""
        self.api.call("PATCH", path, change, MERGE)
        self._undo.append((path, back))

    def without_device_policies(self, pod: Object) -> None:
        """Let the namespace `default` have what our policies refuse, as where they are not installed."""
        label = "gpufleet.io/device-access"
        on, off = ({"metadata": {"labels": {label: value}}} for value in ("all", None))
        self.patch("/api/v1/namespaces/default", on, off)
        path = "/api/v1/namespaces/default/pods?dryRun=All"
        self.until(lambda: self.api.request("POST", path, pod)[0] == 201)

    def change(self, path: str, change: Object) -> None:
        """Change by a merge patch what is deleted at the end anyway."""
        self.api.call("PATCH", path, change, MERGE)

    def removed_at_the_end(self, path: str) -> None:
        """Have an object deleted at the end that somebody else makes."""
        self._made.append(path)

    def patch_node(self, name: str, change: Object, back: Object, *, status: bool = False) -> None:
        """Change a node, or what its kubelet says of it."""
        self.patch(f"/api/v1/nodes/{name}{'/status' if status else ''}", change, back)

    def delete(self, path: str) -> None:
        """Delete an object; it is made again at the end."""
        body = self.api.call("GET", path)
        for name in ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"):
            body["metadata"].pop(name, None)
        self.api.call("DELETE", path)
        self._undo.append((path, body))

    def heal(self) -> None:
        """Take everything back."""
        for path in reversed(self._made):
            status, _ = self.api.request(
                "DELETE", f"{path}?propagationPolicy=Background&gracePeriodSeconds=0"
            )
            assert status in {200, 202, 404}, path
        for path, body in reversed(self._undo):
            if "kind" in body:
                self.api.call("POST", path.rpartition("/")[0], body)
            else:
                self.api.call("PATCH", path, body, MERGE)
        self._made.clear()
        self._undo.clear()

    def examined(self, age_s: float = 0.0) -> Diagnosis:
        """What the doctor says, as if so much time had gone by since."""
        now = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=age_s)
        return diagnose(facts_of(gathered(self.cluster.kubeconfig, ""), now), all_checks())

    def finds(self, check: str, *words: str, age_s: float = 0.0) -> FoundProblem:
        """The doctor names this check's failure first, with these words in what it says or saw."""
        began_s = time.monotonic()
        while True:
            causes = self.examined(age_s).causes
            if causes and causes[0].check.id == check:
                failure = causes[0].failure
                told = "\n".join((failure.says, *failure.evidence, *failure.subjects))
                if all(word in told for word in words):
                    return causes[0]
            self._look_again(began_s, causes)

    def is_healthy(self) -> None:
        """The doctor has nothing to complain of, sooner or later."""
        began_s = time.monotonic()
        while causes := self.examined().causes:
            self._look_again(began_s, causes)

    @staticmethod
    def _look_again(began_s: float, causes: Sequence[FoundProblem]) -> None:
        """Wait until the next examination; it is too late for one where the doctor had its time."""
        waited_s = time.monotonic() - began_s
        assert waited_s < WAIT_S, [(one.check.id, one.failure) for one in causes]
        time.sleep(max(POLL_EVERY_S, pause_after(waited_s)))

    def _collection(self, body: Object) -> str:
        version: str = body["apiVersion"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        served = self.api.call("GET", root)["resources"]
        found = next(one for one in served if one["kind"] == body["kind"] and "/" not in one["name"])
        place = f"/namespaces/{body['metadata'].get('namespace', 'default')}" if found["namespaced"] else ""
        return f"{root}{place}/{found['name']}"


def a_pod(name: str, gpus: int = 1, resource: str = "nvidia.com/gpu", **spec: Any) -> Object:
    """A pod with GPUs that our scheduler is to place."""
    limits = {resource: str(gpus)} if gpus else {"cpu": "1"}
    container = {"name": "main", "image": "registry.example/train:1.4", "resources": {"limits": limits}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"schedulerName": "gpufleet", "containers": [container], **spec},
    }


def a_deployment(name: str, pod: Object, replicas: int = 1) -> Object:
    """A Deployment of such pods."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod["spec"]},
        },
    }


def a_definition(group: str, version: str, kind: str, *, namespaced: bool) -> Object:
    """The definition of a kind that may have any fields, with a status of its own."""
    plural = f"{kind.lower()}s"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced" if namespaced else "Cluster",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": anything},
                }
            ],
        },
    }


def a_job(name: str, pod: Object, **spec: Any) -> Object:
    """A Job of such pods."""
    template = {"spec": {"restartPolicy": "Never", **pod["spec"]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template, **spec},
    }


def labelled(body: Object, **labels: str) -> Object:
    """The object with these labels; ``__`` in their names is a slash, and ``_`` a dot."""
    named = {name.replace("__", "/").replace("_", "."): value for name, value in labels.items()}
    return {**body, "metadata": {**body["metadata"], "labels": named}}
