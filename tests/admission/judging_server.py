"""A real API server with the policies that judge, and what it says of objects that are not kept.

Objects are created with dryRun=All: every policy judges them, and nothing stays. Policies fail here where
they would otherwise let an object pass unjudged, so that an expression that cannot be evaluated fails a test.
"""

import contextlib
import copy
import functools
import http.client
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from gpufleet.admission.cel.rules import FINDINGS
from gpufleet.admission.images import image_policies
from gpufleet.admission.policies import LABEL, lint_policies
from gpufleet.kube.meanings.image_policies import IMAGE_POLICY
from gpufleet.lint.rules import rule_of
from gpufleet.lint.run import lint, read
from gpufleet.lint.source.text import SourceText
from gpufleet.localkube.access.api import Api, tls_context
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from tests.admission.lint_corpus import objects
from tests.localkube.cluster import KUBERNETES, a_cluster
from tests.waiting import until

Object = dict[str, Any]
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PATHS = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "DaemonSet": "/apis/apps/v1/namespaces/{}/daemonsets",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "CronJob": "/apis/batch/v1/namespaces/{}/cronjobs",
    "JAXJob": "/apis/kubeflow.org/v1/namespaces/{}/jaxjobs",
}
PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
}
MARKS = "/api/v1/namespaces/default/configmaps"
_ON_MARKS: Object = {
    "failurePolicy": "Fail",
    "matchConstraints": {
        "resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
        ]
    },
    "matchConditions": [{"name": "mark", "expression": "object.metadata.name == 'mark'"}],
}


def _last(kind: str, spec: Object, binding: Object) -> list[Object]:
    """A policy about the mark, and its binding."""
    version, metadata = "admissionregistration.k8s.io/v1", {"name": "zz-last"}
    return [
        {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": {**_ON_MARKS, **spec}},
        {
            "apiVersion": version,
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "spec": {"policyName": "zz-last", **binding},
        },
    ]


LAST = [
    *_last(
        "MutatingAdmissionPolicy",
        {
            "reinvocationPolicy": "Never",
            "mutations": [
                {
                    "patchType": "ApplyConfiguration",
                    "applyConfiguration": {"expression": "Object{data: {'mark': 'changed'}}"},
                }
            ],
        },
        {},
    ),
    *_last(
        "ValidatingAdmissionPolicy",
        {
            "validations": [
                {
                    "expression": "false",
                    "messageExpression": "'in force: ' + (has(object.data) ? object.data.mark : 'unchanged')",
                }
            ]
        },
        {"validationActions": ["Deny"]},
    ),
]
"""Policies that are put behind others: one changes a mark, the other refuses it and tells of the change."""

RULES = [rule_of(one) for one in FINDINGS]
_RULE = re.compile(r": (GPU\d{3}) ")
PRIVILEGED: Object = {
    "containers": [
        {
            "name": "main",
            "image": "example.com/train:1",
            "resources": {"limits": {"nvidia.com/gpu": "1"}},
            "securityContext": {"privileged": True},
        }
    ]
}
"""A pod that GPU006 finds."""


@dataclass(frozen=True)
class Said:
    """What the server answered: its status, the object or the refusal, and its warnings."""

    status: int
    body: Object
    warnings: tuple[str, ...]

    @property
    def rules(self) -> set[str]:
        """The rules that it warns of, or refuses by."""
        texts = " ".join((*self.warnings, str(self.body.get("message", ""))))
        return set(_RULE.findall(texts))

    @property
    def error(self) -> str:
        """What could not be evaluated."""
        texts = [*self.warnings, self.body.get("message", "")]
        return next((text for text in texts if "resulted in error" in text), "")


class JudgingServer:
    """Verbs of the tests."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self._clients = contextlib.ExitStack()
        names = (f"{cluster.folder}/admin.crt", f"{cluster.folder}/admin.key")
        context = tls_context(cluster.authority, *map(Path, names))
        self._connection = http.client.HTTPSConnection("127.0.0.1", cluster.port, timeout=60, context=context)

    @property
    def api(self) -> Api:
        """A new client: the server closes the connection of one that was silent for minutes."""
        self._clients.close()
        return self._clients.enter_context(self.cluster.api())

    def close(self) -> None:
        """Ask nothing more."""
        self._clients.close()
        self._connection.close()

    def namespace(self, name: str, labels: dict[str, str] | None = None, **annotations: str) -> None:
        """A namespace in which pods can be created."""
        metadata = {"name": name, "labels": labels or {}, "annotations": annotations}
        self.api.call("POST", "/api/v1/namespaces", {"metadata": metadata})
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        until(lambda: self.api.request("GET", account)[0] == 200)

    def create(self, one: Object, namespace: str, *, dry_run: bool = True) -> Said:
        """What is said of an object."""
        path = PATHS[one["kind"]].format(namespace) + ("?dryRun=All" if dry_run else "")
        body = copy.deepcopy(one)
        body["metadata"] = {**body.get("metadata", {}), "namespace": namespace}
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        answer = self._asked(path, msgspec.json.encode(body), headers)
        told = msgspec.json.decode(answer.read())
        return Said(answer.status, told, tuple(answer.headers.get_all("Warning") or ()))

    def _asked(self, path: str, body: bytes, headers: dict[str, str]) -> http.client.HTTPResponse:
        """The answer, on a new connection where the server has closed one that was silent for minutes."""
        try:
            self._connection.request("POST", path, body, headers)
            return self._connection.getresponse()
        except (http.client.RemoteDisconnected, ConnectionError):
            self._connection.close()
        self._connection.request("POST", path, body, headers)
        return self._connection.getresponse()

    def install(self, objects: list[Object]) -> None:
        """Apply policies and bindings as they are, and return when all of them are in force."""
        for one in (*objects, *LAST):
            self.api.apply(f"{ADMISSION}/{PLURALS[one['kind']]}/{one['metadata']['name']}", one)
        until(self._last_are_in_force, 30, "the policies are not in force")
        self.remove(LAST)

    def _last_are_in_force(self) -> bool:
        """A server takes up policies of a kind in their order, so with the last one all before it count."""
        mark = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mark"}}
        status, answer = self.api.request("POST", f"{MARKS}?dryRun=All", mark)
        return status >= http.HTTPStatus.BAD_REQUEST and b"in force: changed" in answer

    def judge(self) -> None:
        """Install the policies of lint and of images as the tests expect them, and wait for each of them."""
        self.install(all_policies())
        pod = a_pod("probe", PRIVILEGED)
        until(lambda: self.create(pod, "warn").rules == {"GPU006"}, 30, "the policies do not judge")
        until(lambda: self.create(pod, "deny").status == 403, 30, "the policies do not refuse")
        until(lambda: self.create(pod, "pinned").status == 403, 30, "no policy refuses images")
        pinned = a_pod(
            "probe", {"containers": [{"name": "main", "image": f"someone/else@sha256:{'a' * 64}"}]}
        )
        until(lambda: self.create(pinned, "pinned").status == 201, 30, "images of any registry are refused")
        until(lambda: jax_job(self), 30, "the server has no JAXJob")
        until(lambda: is_in_force(self, first_finds()), 60, "not every policy judges")

    def remove(self, objects: list[Object]) -> None:
        """Take them away."""
        for one in reversed(objects):
            self.api.call("DELETE", f"{ADMISSION}/{PLURALS[one['kind']]}/{one['metadata']['name']}")


def strict(objects: list[Object]) -> list[Object]:
    """The same policies, which say what they could not evaluate."""
    found = copy.deepcopy(objects)
    for one in found:
        if one["kind"] in {"ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"}:
            one["spec"]["failurePolicy"] = "Fail"
    return found


@contextlib.contextmanager
def bare_server(folder: Path, kubernetes: str = KUBERNETES) -> Iterator[JudgingServer]:
    """The server without policies."""
    options = Options(kubernetes=kubernetes, simulated_nodes=False)
    with a_cluster(folder, options=options) as cluster:
        server = JudgingServer(cluster)
        yield server
        server.close()


@contextlib.contextmanager
def judging_server(folder: Path, kubernetes: str = KUBERNETES) -> Iterator[JudgingServer]:
    """The server with the policies of lint and of images.

    Its namespaces warn, deny, audit and off have these labels. Tests make namespaces of their own with the
    label ``off`` where the rules of lint do not matter.
    """
    with bare_server(folder, kubernetes) as server:
        server.api.apply(f"{DEFINITIONS}/jaxjobs.kubeflow.org", any_jax_job())
        for name in ("warn", "deny", "audit", "off"):
            server.namespace(name, {LABEL: name})
        server.namespace("unlabelled")
        server.namespace("pinned", {LABEL: "off", IMAGE_POLICY: "deny"})
        server.judge()
        yield server


def all_policies() -> list[Object]:
    """The policies of lint and of images, which say what they could not evaluate."""
    return strict([*lint_policies(), *image_policies()])


@functools.cache
def first_finds() -> dict[str, Object]:
    """By rule, the first object in which it finds something."""
    found: dict[str, Object] = {}
    for _, _, templates in objects():
        job = a_jax_job(templates)
        for rule in by_lint(job):
            found.setdefault(rule, job)
    return found


def is_in_force(server: JudgingServer, first: dict[str, Object]) -> bool:
    """Whether every policy judges: the server takes them up one by one."""
    return all(rule in server.create(job, "warn").rules for rule, job in first.items())


def by_lint(one: Object) -> set[str]:
    """The rules of policies that find something, as Python judges."""
    text = msgspec.json.encode(one).decode()
    return {found.rule.id for found in lint([read(SourceText("one", text))], RULES).findings}


def jax_job(server: JudgingServer) -> bool:
    """Whether such objects are served and judged."""
    return server.create(a_jax_job([{"spec": PRIVILEGED}]), "warn").rules == {"GPU006"}


def a_pod(name: str, spec: Object, **annotations: str) -> Object:
    """A pod."""
    metadata = {"name": name, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def a_jax_job(templates: list[Object]) -> Object:
    """A job with these pods, of a kind that no server judges by its own rules."""
    specs = {f"Role{number}": {"template": one} for number, one in enumerate(templates)}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "JAXJob",
        "metadata": {"name": "job"},
        "spec": {"jaxReplicaSpecs": specs},
    }


def any_jax_job() -> Object:
    """A definition of JAXJobs that takes whatever their pods say."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "jaxjobs", "singular": "jaxjob", "kind": "JAXJob", "listKind": "JAXJobList"}
    spec = {"group": "kubeflow.org", "scope": "Namespaced", "names": names, "versions": [version]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "jaxjobs.kubeflow.org"},
        "spec": spec,
    }
