"""Requests whose answers a real kube-apiserver and the simulated one must give alike.

A case is a story told to a server; ``Asker`` writes down every answer in a form that is the same on
any server: revisions, uids and times become names. ``record_answers`` asks a real server and keeps
what it said, ``test_conformance`` holds the simulated one to it.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from gpufleet.kube.transport import Request, Transport

JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
NAMESPACE = "conformance"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
NODES = "/api/v1/nodes"
BUDGETS = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
CLAIMS = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
UNTOLD = {"managedFields", "creationTimestamp", "lastProbeTime", "lastTransitionTime", "observedGeneration"}
METADATA = {
    "name", "namespace", "uid", "resourceVersion", "generation", "labels", "annotations", "finalizers",
    "deletionTimestamp", "deletionGracePeriodSeconds", "continue", "remainingItemCount", "ownerReferences",
}  # fmt: skip
SPEC = {
    "nodeName", "schedulerName", "priority", "schedulingGates", "terminationGracePeriodSeconds",
    "unschedulable", "holderIdentity", "leaseTransitions", "restartPolicy", "preemptionPolicy",
    "nodeSelector",
}  # fmt: skip


class Asker:
    """Asks one server and writes down what it answered."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.told: list[Any] = []
        self._names: dict[str, str] = {}

    async def ask(
        self, method: str, target: str, body: Any = None, content_type: str = JSON, label: str = ""
    ) -> Any:
        """One request; returns the decoded answer. ``label``: what the story calls its uid and revision."""
        raw = b"" if body is None else msgspec.json.encode(body)
        response = await self.transport.call(Request(method, target, raw, content_type), timeout_s=30)
        text = response.body.startswith(b"404 page")
        value = {"kind": "text", "spec": {}} if text else msgspec.json.decode(response.body)
        self.name(value, label)
        self.told.append({"asked": self._plain(f"{method} {target}"), "code": response.status,
                          "answer": self.project(value)})  # fmt: skip
        return value

    async def watch(self, target: str, events: int) -> list[Any]:
        """The first events of a watch."""
        stream = await self.transport.open(Request("GET", target), timeout_s=30)
        text = b""
        async with asyncio.timeout(60):
            async for chunk in stream.chunks():
                text += chunk
                if text.count(b"\n") >= events:
                    break
        await stream.close()
        lines = [msgspec.json.decode(line) for line in text.splitlines()[:events]]
        told = [{"type": line["type"], "object": self.project(line["object"])} for line in lines]
        self.told.append({"asked": self._plain(f"WATCH {target}"), "code": stream.status, "events": told})
        return lines

    def name(self, value: Any, label: str) -> None:
        """Call the uid and the revision of this answer by a name of the story."""
        metadata = value.get("metadata") or {}
        for field in ("uid", "resourceVersion"):
            if label and metadata.get(field):
                self._names.setdefault(metadata[field], f"<{field} of {label}>")

    def _plain(self, text: str) -> str:
        for found, name in self._names.items():
            text = re.sub(rf"(?<![\w-]){re.escape(found)}(?![\w-])", name, text)
        text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>", text)
        return re.sub(r"\b\d{3,}\b", "<number>", re.sub(r"continue=[^&]+", "continue=<token>", text))

    def project(self, value: Any) -> Any:
        """What the story is about, in a form without chance."""
        kind = value.get("kind", "")
        if kind == "Status":
            told = {field: self._scrub(found) for field, found in sorted(value.items())}
            if value.get("code") in {400, 415}:
                # Words of the server's inside, on which no client acts.
                told["message"] = "<words>"
            return told
        if "items" in value:
            metadata = self._scrub(value.get("metadata") or {})
            return {
                "kind": kind,
                "metadata": metadata,
                "items": [self.project(item) for item in value["items"]],
            }
        metadata = {k: v for k, v in (value.get("metadata") or {}).items() if k in METADATA}
        found = {"kind": kind, "apiVersion": value.get("apiVersion", ""), "metadata": self._scrub(metadata)}
        spec, status = value.get("spec") or {}, value.get("status") or {}
        found["spec"] = self._scrub({k: v for k, v in spec.items() if k in SPEC})
        found["resources"] = [c.get("resources") for c in spec.get("containers") or []]
        found["status"] = self._scrub(
            {k: status[k] for k in ("phase", "qosClass", "nominatedNodeName") if k in status}
        )
        found["conditions"] = [
            {k: v for k, v in condition.items() if k in {"type", "status", "reason", "message"}}
            for condition in (status.get("conditions") or [] if kind != "PodDisruptionBudget" else ())
        ]
        return found

    def _scrub(self, value: Any) -> Any:
        if isinstance(value, dict):
            scrubbed = {}
            for field, found in sorted(value.items()):
                if field in {"resourceVersion", "continue", "deletionTimestamp"}:
                    scrubbed[field] = f"<{field}>" if found else found
                elif field not in UNTOLD:
                    scrubbed[field] = self._scrub(found)
            return scrubbed
        if isinstance(value, list):
            return [self._scrub(item) for item in value]
        return self._plain(value) if isinstance(value, str) else value


def pod(name: str, **spec: Any) -> Any:
    """A small pod."""
    containers = [{"name": "main", "image": "none", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]
    return {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def binding(name: str, node: str, **metadata: Any) -> Any:
    """A Binding of a pod."""
    return {"metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": node}}


async def creates(asker: Asker) -> None:
    ask = asker.ask
    await ask("POST", PODS, pod("a"), label="a")
    await ask("POST", PODS, pod("a"))
    await ask("POST", PODS, pod("gated", schedulingGates=[{"name": "example.com/wait"}]), label="gated")
    await ask("POST", f"{PODS}?dryRun=All", pod("dry"))
    await ask("GET", f"{PODS}/dry")
    await ask("POST", "/api/v1/namespaces/absent/pods", pod("a"))
    await ask("POST", PODS, {"metadata": {}, "spec": {"containers": [{"name": "main", "image": "none"}]}})
    await ask("POST", PODS, {**pod("b"), "apiVersion": "v2"})
    await ask("POST", PODS, {**pod("b"), "kind": "Node"})
    other = pod("b")
    other["metadata"]["namespace"] = "default"
    await ask("POST", PODS, other)
    await ask("POST", PODS, pod("b", priorityClassName="absent"))
    gpu = pod("gpu")
    gpu["spec"]["containers"][0]["resources"] = {"requests": {"nvidia.com/gpu": "1"}}
    await ask("POST", PODS, gpu)
    gpu["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    await ask("POST", PODS, gpu)
    await ask("GET", "/apis/none.example.com/v1/things")
    await ask("GET", "/api/v1/things")


async def binds(asker: Asker) -> None:
    ask = asker.ask
    await ask("POST", PODS, pod("a"), label="a")
    other = await ask("POST", PODS, pod("other"), label="other")
    await ask("POST", f"{PODS}/a/binding", binding("a", "n1", uid=other["metadata"]["uid"]))
    await ask("POST", f"{PODS}/a/binding", binding("b", "n1"))
    await ask("POST", f"{PODS}/a/binding", {"metadata": {"name": "a"}, "target": {"kind": "Node"}})
    await ask(
        "POST", f"{PODS}/a/binding", {"metadata": {"name": "a"}, "target": {"kind": "Car", "name": "n"}}
    )
    await ask("POST", f"{PODS}/absent/binding", binding("absent", "n1"))
    await ask("POST", f"{PODS}/a/binding?dryRun=All", binding("a", "n1"))
    await ask("GET", f"{PODS}/a")
    uid = (await ask("GET", f"{PODS}/a"))["metadata"]["uid"]
    told = {"uid": uid, "annotations": {"example.com/told": "yes"}, "labels": {"zone": "z1"}}
    await ask("POST", f"{PODS}/a/binding", binding("a", "n1", **told))
    await ask("GET", f"{PODS}/a")
    await ask("POST", f"{PODS}/a/binding", binding("a", "n1", uid=uid))
    await ask("POST", f"{PODS}/a/binding", binding("a", "n2", uid=uid))
    await ask("POST", f"{PODS}/a/binding?dryRun=All", binding("a", "n2"))
    await ask("POST", PODS, pod("gated", schedulingGates=[{"name": "example.com/wait"}]))
    await ask("POST", f"{PODS}/gated/binding", binding("gated", "n1"))
    await ask("PATCH", f"{PODS}/gated", {"spec": {"schedulingGates": None}}, MERGE)
    await ask("POST", f"{PODS}/gated/binding", binding("gated", "n1"))
    version = (await ask("GET", f"{PODS}/other"))["metadata"]["resourceVersion"]
    await ask("PATCH", f"{PODS}/other", {"metadata": {"labels": {"x": "y"}}}, MERGE)
    await ask("POST", f"{PODS}/other/binding", binding("other", "n1", resourceVersion=version))
    await ask("DELETE", f"{PODS}/a")
    await ask("POST", f"{PODS}/a/binding", binding("a", "n1", uid=uid))
    ending = pod("ending")
    ending["metadata"]["finalizers"] = ["example.com/hold"]
    await ask("POST", PODS, ending)
    await ask("DELETE", f"{PODS}/ending")
    await ask("POST", f"{PODS}/ending/binding", binding("ending", "n1"))
    await ask("POST", f"/api/v1/namespaces/{NAMESPACE}/bindings", binding("other", "n1"))
    await ask("GET", f"{PODS}/other")


async def deletes(asker: Asker) -> None:
    ask = asker.ask
    await ask("POST", PODS, pod("a"), label="a")
    other = await ask("POST", PODS, pod("other"), label="other")
    await ask("DELETE", f"{PODS}/a", {"preconditions": {"uid": other["metadata"]["uid"]}})
    await ask("DELETE", f"{PODS}/a")
    await ask("DELETE", f"{PODS}/a")
    await ask("POST", f"{PODS}/other/binding", binding("other", "n1"))
    await ask("DELETE", f"{PODS}/other")
    await ask("DELETE", f"{PODS}/other")
    await ask("DELETE", f"{PODS}/other?gracePeriodSeconds=5")
    await ask("DELETE", f"{PODS}/other", {"gracePeriodSeconds": 0})
    await ask("GET", f"{PODS}/other")
    held = pod("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await ask("POST", PODS, held)
    await ask("DELETE", f"{PODS}/held")
    await ask("DELETE", f"{PODS}/held", {"gracePeriodSeconds": 0})
    await ask("PATCH", f"{PODS}/held", {"metadata": {"finalizers": ["example.com/more"]}}, STRATEGIC)
    await ask("PATCH", f"{PODS}/held", {"metadata": {"finalizers": None}}, MERGE)
    await ask("GET", f"{PODS}/held")
    await ask("POST", LEASES, {"metadata": {"name": "l"}, "spec": {}}, label="l")
    await ask("DELETE", f"{LEASES}/l")
    await ask("DELETE", f"{LEASES}/l")


async def updates(asker: Asker) -> None:
    ask = asker.ask
    made = await ask("POST", PODS, pod("a"), label="a")
    await ask("PATCH", f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}}, MERGE)
    await ask("PUT", f"{PODS}/a", {**made, "metadata": {**made["metadata"], "labels": {"x": "z"}}})
    await ask(
        "PATCH", f"{PODS}/a", {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}}, MERGE
    )
    await ask("PATCH", f"{PODS}/a", {"metadata": {"uid": "0"}}, MERGE)
    await ask("PATCH", f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}}, MERGE)
    await ask("PATCH", f"{PODS}/a", {"spec": {"schedulingGates": [{"name": "example.com/wait"}]}}, MERGE)
    await ask("PATCH", f"{PODS}/absent", {"metadata": {"labels": {"x": "y"}}}, MERGE)
    await ask("PATCH", f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}}, "application/json")
    await ask("PATCH", f"{PODS}/a", {"status": {"phase": "Running"}}, MERGE)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    await ask("PATCH", f"{PODS}/a/status", {"status": {"conditions": [condition]}}, STRATEGIC)
    ready = {"type": "Ready", "status": "False", "reason": "ContainersNotReady"}
    await ask("PATCH", f"{PODS}/a/status", {"status": {"conditions": [ready]}}, STRATEGIC)
    condition["message"] = "still no room"
    await ask("PATCH", f"{PODS}/a/status", {"status": {"conditions": [condition]}}, STRATEGIC)
    await ask("PATCH", f"{PODS}/a/status", {"status": {"nominatedNodeName": "n1"}}, STRATEGIC)
    await ask("POST", f"{PODS}/a/binding", binding("a", "n1"))
    await ask("GET", f"{PODS}/a")
    await ask("PUT", f"{PODS}/a", pod("b"))
    await ask("PUT", f"{PODS}/absent", pod("absent"))


async def leases(asker: Asker) -> None:
    ask = asker.ask
    spec = {"holderIdentity": "one", "leaseTransitions": 1, "leaseDurationSeconds": 15}
    made = await ask("POST", LEASES, {"metadata": {"name": "l"}, "spec": spec}, label="l")
    taken = {**made, "spec": {**spec, "holderIdentity": "two", "leaseTransitions": 2}}
    await ask("PUT", f"{LEASES}/l", taken, label="l2")
    await ask("PUT", f"{LEASES}/l", taken)
    nameless = {"metadata": {"name": "l"}, "spec": spec}
    await ask("PUT", f"{LEASES}/l", nameless)
    await ask("GET", f"{LEASES}/l")
    await ask("PUT", f"{LEASES}/new", {"metadata": {"name": "new"}, "spec": spec})
    await ask("PATCH", f"{LEASES}/l", {"spec": {"holderIdentity": "three"}}, MERGE)
    wrong = {**made, "metadata": {**made["metadata"], "uid": "0"}}
    await ask("PUT", f"{LEASES}/l", wrong)


async def evicts(asker: Asker) -> None:
    ask = asker.ask
    for name in ("waiting", "running"):
        await ask("POST", PODS, {**pod(name), "metadata": {"name": name, "labels": {"app": "a"}}}, label=name)
    await ask("POST", f"{PODS}/running/binding", binding("running", "n1"))
    await ask("PATCH", f"{PODS}/running/status", {"status": {"phase": "Running"}}, MERGE)
    budget = {
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
    }
    await ask("POST", BUDGETS, budget)
    await ask("POST", f"{PODS}/running/eviction", {"metadata": {"name": "running"}})
    # A pod that is not ready may be evicted while enough others are healthy.
    await ask("POST", f"{PODS}/running/eviction?dryRun=All", {"metadata": {"name": "running"}})
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    await ask("PATCH", f"{PODS}/running/status", {"status": ready}, STRATEGIC)
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": 0,
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1,
    }
    await ask("PATCH", f"{BUDGETS}/b/status", {"status": status}, MERGE)
    await ask("POST", f"{PODS}/running/eviction", {"metadata": {"name": "running"}})
    await ask("POST", f"{PODS}/absent/eviction", {"metadata": {"name": "absent"}})
    await ask("POST", f"{PODS}/running/eviction", {"metadata": {"name": "other"}})
    await ask("POST", f"{PODS}/waiting/eviction", {"metadata": {"name": "waiting"}})
    await ask("GET", f"{PODS}/waiting")
    await ask("PATCH", f"{BUDGETS}/b/status", {"status": {**status, "disruptionsAllowed": 1}}, MERGE)
    wrong = {"metadata": {"name": "running"}, "deleteOptions": {"preconditions": {"uid": "0"}}}
    await ask("POST", f"{PODS}/running/eviction", wrong)
    await ask("PATCH", f"{BUDGETS}/b/status", {"status": {**status, "disruptionsAllowed": 1}}, MERGE)
    await ask("POST", f"{PODS}/running/eviction?dryRun=All", {"metadata": {"name": "running"}})
    await ask("POST", f"{PODS}/running/eviction", {"metadata": {"name": "running"}})
    await ask("GET", f"{PODS}/running")
    await ask("DELETE", f"{PODS}/running?gracePeriodSeconds=0")


async def lists(asker: Asker) -> None:
    ask = asker.ask
    for number in range(5):
        made = pod(f"p{number}")
        made["metadata"]["labels"] = {"parity": "even" if number % 2 == 0 else "odd"}
        await ask("POST", PODS, made)
    await ask("POST", f"{PODS}/p1/binding", binding("p1", "n1"))
    page = await ask("GET", f"{PODS}?limit=2")
    await ask("DELETE", f"{PODS}/p3")
    page = await ask("GET", f"{PODS}?limit=2&continue={page['metadata']['continue']}")
    await ask("GET", f"{PODS}?limit=2&continue={page['metadata']['continue']}")
    await ask("GET", f"{PODS}?limit=2&continue=nonsense")
    await ask("GET", f"{PODS}?labelSelector=parity%3Deven&limit=1")
    await ask("GET", f"{PODS}?labelSelector=parity+in+(odd)")
    await ask("GET", f"{PODS}?labelSelector=parity%21%3Dodd")
    await ask("GET", f"{PODS}?labelSelector=%21parity")
    await ask("GET", f"{PODS}?fieldSelector=spec.nodeName%3Dn1")
    await ask("GET", f"{PODS}?fieldSelector=spec.nodeName%3D%2Cstatus.phase%21%3DRunning")
    await ask("GET", f"{PODS}?fieldSelector=metadata.name%3Dp2")
    await ask("GET", f"{PODS}?fieldSelector=spec.volumes%3D1")
    await ask("GET", f"{PODS}?resourceVersion=0")
    await ask("GET", f"{PODS}?resourceVersion=nonsense")
    await ask("GET", f"{PODS}?resourceVersionMatch=Exact")
    await ask("GET", f"{PODS}/p0?resourceVersion=0")
    await ask("GET", f"{NODES}/absent")


async def watches(asker: Asker) -> None:
    ask = asker.ask
    first = await ask("GET", PODS)
    version = first["metadata"]["resourceVersion"]
    await ask("POST", PODS, pod("a"), label="a")
    await ask("POST", f"{PODS}/a/binding", binding("a", "n1"))
    await ask("PATCH", f"{PODS}/a/status", {"status": {"phase": "Running"}}, MERGE)
    await ask("POST", PODS, pod("b"), label="b")
    await ask("DELETE", f"{PODS}/b")
    await asker.watch(f"{PODS}?watch=true&resourceVersion={version}", 5)
    await asker.watch(f"{PODS}?watch=true&resourceVersion={version}&fieldSelector=spec.nodeName%3D", 4)
    await asker.watch(f"{PODS}?watch=true&resourceVersion={version}&fieldSelector=status.phase%3DRunning", 1)
    await asker.watch(f"{PODS}?watch=true", 1)
    initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    await asker.watch(f"{PODS}?watch=true&{initial}", 2)
    await asker.watch(
        f"{PODS}?watch=true&allowWatchBookmarks=true&timeoutSeconds=6&resourceVersion={version}", 6
    )


async def nodes(asker: Asker) -> None:
    ask = asker.ask
    ready = [{"type": "Ready", "status": "True"}]
    node = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4"}, "conditions": ready}}
    await ask("POST", NODES, node, label="n1")
    await ask("PATCH", f"{NODES}/n1", {"spec": {"unschedulable": True}}, MERGE)
    await ask(
        "PATCH",
        f"{NODES}/n1/status",
        {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
        STRATEGIC,
    )
    await ask("GET", f"{NODES}?fieldSelector=spec.unschedulable%3Dtrue")
    await ask("DELETE", f"{NODES}/n1")
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await ask("POST", CLAIMS, {"metadata": {"name": "c"}, "spec": claim}, label="c")
    await ask(
        "PATCH",
        f"{CLAIMS}/c",
        {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}},
        MERGE,
    )


async def applies(asker: Asker) -> None:
    ask = asker.ask
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}
    await ask("PATCH", f"{LEASES}/l", {**lease, "spec": {"holderIdentity": "one"}}, APPLY)
    await ask("PATCH", f"{LEASES}/l?fieldManager=me", {**lease, "spec": {"holderIdentity": "one"}}, APPLY)
    await ask("PATCH", f"{LEASES}/l?fieldManager=me", {**lease, "spec": {"holderIdentity": "two"}}, APPLY)


Case = Callable[[Asker], Awaitable[None]]
CASES: tuple[Case, ...] = (
    creates, binds, deletes, updates, leases, evicts, lists, watches, nodes, applies,
)  # fmt: skip


async def tell(case: Case, transport: Transport) -> list[Any]:
    """Everything that a server answered in one case, in a namespace of its own that is emptied after."""
    await _clean(transport)
    quiet = Asker(transport)
    await quiet.ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    asker = Asker(transport)
    await case(asker)
    await _clean(transport)
    return asker.told


async def _clean(transport: Transport) -> None:
    quiet = Asker(transport)
    for collection in (PODS, LEASES, BUDGETS, CLAIMS):
        for item in (await quiet.ask("GET", collection)).get("items", []):
            path = f"{collection}/{item['metadata']['name']}"
            if item["metadata"].get("finalizers"):
                await quiet.ask("PATCH", path, {"metadata": {"finalizers": None}}, MERGE)
            await quiet.ask("DELETE", f"{path}?gracePeriodSeconds=0")
