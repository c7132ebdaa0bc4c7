"""Whoever is asked about a pod that waits gives the same cause: condition, Event, explain, queues and doctor.

The kinds of pods are a table (`waiting_kinds`). All of them wait at once, in one cluster with a real API
server and the live scheduler.
"""

import contextlib
import io
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import msgspec
import pytest

from gpufleet.cli import main as cli
from gpufleet.cli import up
from gpufleet.cli.explain_output import lines
from gpufleet.engine.node_reasons.table import TABLE
from gpufleet.explain.answer import WITHOUT_ENGINE, Answer
from gpufleet.kube.codec.lasting_conditions import Distrust, write_distrust
from gpufleet.kube.objects.node import GPU_HEALTHY, PODS_REJECTED
from gpufleet.localkube import manifests, simulated_nodes
from gpufleet.localkube.access.api import Api
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.simulated_nodes import NODE_DEVICES, NODES
from tests.localkube import waiting_pods
from tests.localkube.cluster import a_cluster
from tests.localkube.waiting_kinds import KINDS as OTHER_KINDS
from tests.localkube.waiting_pods import (
    FPGA,
    GPU,
    HOLDS_A_RESERVATION,
    MANAGED,
    NAMESPACE,
    POOLS,
    SHARE,
    STRANGERS,
    TAINTS,
    Kind,
    Object,
    node_of,
)

KINDS = (HOLDS_A_RESERVATION, *OTHER_KINDS)
SETTLED_WITHIN_S = 60.0
DOCTOR_WAITS_S = 31.0
"""The doctor says of a pod only then that its scheduler is not there, or holds it back."""

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
PLURALS = {"StorageClass": "storageclasses", "PriorityClass": "priorityclasses"}


@dataclass
class Said:
    """All that is said of one pod."""

    kind: Kind
    condition: str = ""
    event: str = ""
    answer: Answer | None = None
    text: str = ""
    queue: Object = field(default_factory=dict)
    doctor: set[str] = field(default_factory=set)
    doctor_words: str = ""

    @property
    def everything(self) -> str:
        """All words of all answers."""
        return f"{self.condition}\n{self.event}\n{self.text}\n{self.doctor_words}"


class Asking:
    """Asks each surface about the pods of a cluster."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster

    def typed(self, *words: str) -> str:
        """What a command prints."""
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            cli.main([*words, f"--kubeconfig={self.cluster.kubeconfig}"])
        return printed.getvalue()

    def asked(self, *words: str) -> Object:
        """What a command prints for programs."""
        decoded: Object = msgspec.json.decode(self.typed(*words, "-o", "json"))
        return decoded

    def explained(self, kind: Kind) -> Answer:
        """What `gpufleet explain` says of a pod."""
        words = ("explain", f"pod/{kind.name}", "-n", kind.namespace, "-o", "json")
        return msgspec.json.decode(self.typed(*words), type=Answer)

    def queued(self) -> dict[tuple[str, str], Object]:
        """What `gpufleet queues` says of each pod, or of each gang by its name."""
        rows = (row for one in self.asked("queues")["queues"] for row in one.get("waiting") or ())
        return {(row["namespace"], row["name"]): row for row in rows}

    def diagnosed(self) -> list[Object]:
        """What `gpufleet doctor` found, causes and what follows from them alike."""
        found: list[Object] = []
        left = list(self.asked("doctor", "--fail-on=never")["causes"])
        while left:
            found.append(left.pop())
            left += found[-1].get("follows", [])
        return found


def patch(api: Api, path: str, body: Object, content_type: str = MERGE) -> None:
    """Change an object."""
    api.call("PATCH", path, body, content_type)


def path_of(one: Object) -> str:
    """Where objects of this kind are made."""
    version, namespace = one["apiVersion"], one["metadata"].get("namespace")
    group = f"/apis/{version}" if "/" in version else f"/api/{version}"
    plural = PLURALS.get(one["kind"], f"{one['kind'].lower()}s")
    return f"{group}/namespaces/{namespace}/{plural}" if namespace else f"{group}/{plural}"


def make(api: Api, *objects: Object) -> None:
    """Create objects."""
    for one in objects:
        api.call("POST", path_of(one), one)


def condition(api: Api, node: str, **said: str) -> None:
    """A condition of a node."""
    patch(api, f"{NODES}/{node}/status", {"status": {"conditions": [said]}}, STRATEGIC)


def report(api: Api, pool: str, change: Callable[[int, Object], None]) -> None:
    """Change the devices in a node's report."""
    path = f"{NODE_DEVICES}/{node_of(pool)}"
    devices = api.call("GET", path)["spec"]["devices"]
    for index, device in enumerate(devices):
        change(index, device)
    patch(api, path, {"spec": {"devices": devices}})


def furnish(cluster: LocalCluster, api: Api) -> None:
    """Nodes, each with what is the matter with it, queues, classes and volumes."""
    manifests.install(api)
    for pool in POOLS:
        simulated_nodes.create(cluster, waiting_pods.nodes(pool))
        key, value = TAINTS.get(pool, (waiting_pods.POOL, pool))
        spec: Object = {"taints": [{"key": key, "value": value, "effect": "NoSchedule"}]}
        if pool in {"cordoned", "silent"}:
            spec["unschedulable"] = True
        patch(api, f"{NODES}/{node_of(pool)}", {"spec": spec})
    report(api, "apart", lambda index, device: device.update(linkGroup=index))
    report(api, "whole", lambda _, device: device.update(sharing="whole"))
    report(api, "sick", lambda _, device: device.update(health="unhealthy", healthReason="XID 79"))
    patch(api, f"{NODE_DEVICES}/{node_of('aged')}", {"spec": {"driver": "470.82.01"}})
    for pool in ("silent", "bare"):
        api.call("DELETE", f"{NODE_DEVICES}/{node_of(pool)}")
    condition(api, node_of("silent"), type=GPU_HEALTHY, status="True", reason="AllHealthy", message="well")
    left = write_distrust(Distrust(int((time.time() + 900) * 1e6), 900_000_000))
    said = {"status": left.status, "reason": left.reason, "message": left.message}
    condition(api, node_of("rejecting"), type=PODS_REJECTED, **said)
    # KWOK leaves it alone from now on.
    patch(api, f"{NODES}/{node_of('unready')}", {"metadata": {"annotations": {"kwok.x-k8s.io/node": None}}})
    condition(api, node_of("unready"), type="Ready", status="False", reason="KubeletNotReady", message="ill")
    away = {"status": {"allocatable": {GPU: "0", SHARE: "0"}}}
    patch(api, f"{NODES}/{node_of('away')}/status", away, STRATEGIC)
    more = {"status": {"allocatable": {FPGA: "1"}, "capacity": {FPGA: "1"}}}
    patch(api, f"{NODES}/{node_of('beside')}/status", more, STRATEGIC)
    make(api, *waiting_pods.setting())


def until(what: str, holds: Callable[[], bool], within_s: float = SETTLED_WITHIN_S) -> None:
    """Wait for something."""
    limit_s = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < limit_s, f"never: {what}"
        time.sleep(0.2)


def pods(api: Api) -> dict[tuple[str, str], Object]:
    """All pods by namespace and name."""
    found = api.call("GET", "/api/v1/pods")["items"]
    return {(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in found}


def runs(one: Object) -> bool:
    """Whether a pod runs."""
    return bool(one["status"]["phase"] == "Running")


def is_there(api: Api, path: str) -> bool:
    """Whether the server has an object."""
    return api.request("GET", path)[0] == 200


def told(one: Object) -> str:
    """What a pod's condition says of why it waits."""
    conditions = one["status"].get("conditions", [])
    return next((each["message"] for each in conditions if each["type"] == "PodScheduled"), "")


def newest_events(api: Api) -> dict[tuple[str, str], str]:
    """The newest Event of the scheduler about each pod."""
    events = api.call("GET", "/apis/events.k8s.io/v1/events")["items"]
    about_pods = (one for one in events if one["regarding"]["kind"] == "Pod")
    ours = [one for one in about_pods if one.get("reportingController") == "gpufleet"]
    ours.sort(key=lambda one: str(one["eventTime"]))
    return {(one["regarding"]["namespace"], one["regarding"]["name"]): one["note"] for one in ours}


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    """A cluster in which a pod of each kind waits."""
    parts = up.components()
    with a_cluster(tmp_path_factory.mktemp("same"), components=parts) as cluster:
        with cluster.api() as api:
            furnish(cluster, api)
            for namespace in (STRANGERS, MANAGED):
                account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
                until(account, partial(is_there, api, account))
        cluster.await_service_account()
        cluster.furnished()
        for part in parts:
            cluster.await_component(part)
        with cluster.api() as api:
            furniture = list(waiting_pods.furniture())
            make(api, *furniture)
            until("all furniture runs", lambda: all(map(runs, pods(api).values())))
            make(api, HOLDS_A_RESERVATION.pod)
            until("it holds a reservation", lambda: "reservation" in told(pods(api)[NAMESPACE, "reserved"]))
            for kind in OTHER_KINDS:
                make(api, *kind.with_it, kind.pod)
        yield Asking(cluster)


@pytest.fixture(scope="module")
def said(asking: Asking) -> dict[str, Said]:
    """What is said of each pod, once everybody has had the time to say it."""
    made_s = time.monotonic()
    found = {kind.name: Said(kind) for kind in KINDS}
    with asking.cluster.api() as api:

        def is_told() -> bool:
            there, events = pods(api), newest_events(api)
            for kind in KINDS:
                name = (kind.namespace, kind.name)
                found[kind.name].condition, found[kind.name].event = told(there[name]), events.get(name, "")
            every = [(one.kind.told, one.condition, one.event) for one in found.values()]
            return all(words in condition and words in event for words, condition, event in every)

        with contextlib.suppress(AssertionError):
            until("all conditions and Events", is_told)
        for one in found.values():
            one.answer = asking.explained(one.kind)
            one.text = " ".join(" ".join(lines(one.answer, 100)).split())
        queued = asking.queued()
        for one in found.values():
            gang = one.kind.pod["metadata"]["annotations"].get("gpufleet.io/gang")
            one.queue = queued.get((one.kind.namespace, gang or one.kind.name), {})
        time.sleep(max(0.0, made_s + DOCTOR_WAITS_S - time.monotonic()))
        for failure in asking.diagnosed():
            for one in found.values():
                if f"Pod {one.kind.namespace}/{one.kind.name}" in failure["subjects"]:
                    one.doctor.add(failure["check"])
                    one.doctor_words += f"{failure['says']} {failure['mends']}\n"
        is_told()
    return found


def test_there_are_forty_kinds_and_each_has_a_name_of_its_own() -> None:
    assert len({(kind.namespace, kind.name) for kind in KINDS}) == len(KINDS) > 40


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_everybody_names_the_same_cause(said: dict[str, Said], kind: Kind) -> None:
    one = said[kind.name]
    assert one.answer is not None
    assert (one.answer.state.value, one.answer.cause) == (kind.state, kind.cause)
    assert kind.why in one.answer.why
    assert kind.way_out in " ".join(one.answer.way_out[:1])
    assert kind.why in one.text
    assert kind.told in one.condition
    assert kind.told in one.event
    if kind.queues:
        assert (one.queue["reason"], one.queue["cause"]) == (kind.queues, kind.cause)
    else:
        assert not one.queue
    assert one.doctor == set(kind.doctor)
    for words in kind.never:
        assert words not in one.everything


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_condition_begins_with_the_cause_that_is_a_reason_of_nodes(
    said: dict[str, Said], kind: Kind
) -> None:
    reason = TABLE.by_name.get(kind.cause)
    groups = said[kind.name].condition.partition(" nodes ")[2]
    if reason is not None:
        assert groups.split(" ", 1)[1].startswith(reason.words)


def test_the_engine_is_not_asked_about_what_the_scheduler_does_not_give_it(said: dict[str, Said]) -> None:
    for one in said.values():
        assert one.answer is not None
        assert (one.answer.cause in WITHOUT_ENGINE) <= (one.answer.nodes == 0)


def test_check_finds_the_scheduler_at_work_and_the_nodes_that_report(asking: Asking) -> None:
    printed = asking.typed("check")
    assert "NOT ok" not in printed
    assert "18 nodes report 36 GPUs, 2 of them out of service" in printed


def test_when_the_cause_changes_everybody_follows(asking: Asking, said: dict[str, Said]) -> None:
    kind = said["queue-closed"].kind
    assert "queue shut is held" in said["queue-closed"].event
    with asking.cluster.api() as api:
        patch(api, "/apis/gpufleet.io/v1alpha1/fleetqueues/shut", {"spec": {"state": "Open"}})
        name, words = (kind.namespace, kind.name), "of 20 nodes 1 with too few free GPUs"
        until("the condition follows", lambda: words in told(pods(api)[name]))
        until("the Event follows", lambda: words in newest_events(api)[name])
    assert asking.explained(kind).cause == "gpu-busy"
    until("queues follow", lambda: asking.queued()[name]["cause"] == "gpu-busy")
    subjects = {subject for one in asking.diagnosed() for subject in one["subjects"]}
    assert f"Pod {kind.namespace}/{kind.name}" not in subjects


def test_without_nodes_everybody_says_so(asking: Asking, said: dict[str, Said]) -> None:
    kind = said["gpu-busy"].kind
    with asking.cluster.api() as api:
        for pool in POOLS:
            api.call("DELETE", f"{NODES}/{node_of(pool)}")
        name = (kind.namespace, kind.name)
        until("the condition follows", lambda: "there are no nodes" in told(pods(api)[name]))
        until("the Event follows", lambda: "there are no nodes" in newest_events(api)[name])
    assert asking.explained(kind).cause == "no-nodes"
    assert asking.queued()[name]["cause"] == "no-nodes"
