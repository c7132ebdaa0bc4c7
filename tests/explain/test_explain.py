"""Names are understood as people write them, and what stands well is said as well as what does not."""

from typing import Any

import pytest

from gpufleet.cluster.settings import Settings
from gpufleet.cluster.watching.mirrors import WATCHED
from gpufleet.explain.answer import Answer, ReadyRow, State
from gpufleet.explain.inquiry import ask
from gpufleet.explain.owners import KINDS
from gpufleet.explain.subject import Wanted, read_name
from gpufleet.kube.client import Client
from gpufleet.kube.manifests import manifests
from gpufleet.kube.resources import EVENTS, LIMIT_RANGES, RESOURCE_QUOTAS
from gpufleet.kube.status import Forbidden, Status
from gpufleet.model.model_errors import InputError
from tests.scheduler.world import World, in_world

GANG = {"gpufleet.io/gang": "train", "gpufleet.io/gang-min-members": "2"}


async def answer_in(world: World, name: str, namespace: str = "default") -> Answer:
    """Ask as an administrator does."""
    client = Client(world.transport("system:masters"), world.clock, world.random)
    return await ask(client, Settings(identity="explain"), name, namespace, lambda _: None)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("train", Wanted("", "train")),
        ("pod/train", Wanted("pod", "train")),
        ("po/train", Wanted("pod", "train")),
        ("deploy/web", Wanted("deployment", "web")),
        ("Job/train", Wanted("job", "train")),
        ("deployments.apps/web", Wanted("deployment", "web")),
        ("podgroup/train", Wanted("gang", "train")),
        ("pytorchjob/train", Wanted("pytorchjob", "train")),
    ],
)
def test_names_are_read_as_kubectl_reads_them(text: str, meant: Wanted) -> None:
    assert read_name(text) == meant


@pytest.mark.parametrize("text", ["", "/", "pod/", "/train", "pod/a/b", "../train", "./train", "-/train"])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="not a name"):
        read_name(text)


def test_where_a_running_pod_is_and_with_which_devices() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=2)
        world.pod("p", gpus=2)
        await world.settle()
        world.request("PATCH", "/api/v1/namespaces/default/pods/p/status", {"status": {"phase": "Running"}})
        answer = await answer_in(world, "p")
        assert answer.state is State.RUNS
        assert answer.summary == "pod default/p runs on a with 2 GPUs"
        assert answer.placement is not None
        assert [row.id for row in answer.placement.devices] == world.devices_of("p")
        assert not answer.way_out

    in_world(story)


def test_a_gang_is_found_by_its_name_and_all_members_are_told() -> None:
    async def story(world: World) -> None:
        world.node("a")
        for name in ("p", "q"):
            world.pod(name, annotations=GANG)
        await world.settle()
        for name in ("train", "podgroup/train", "gang/train"):
            answer = await answer_in(world, name)
            assert answer.gang is not None
            assert [(row.pod, row.node) for row in answer.gang.members] == [("p", "a"), ("q", "a")]

    in_world(story)


def test_a_half_bound_gang_says_until_when_it_must_be_whole() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1)
        world.pod("p", annotations=GANG, nodeName="a")
        world.pod("q", annotations=GANG)
        await world.settle()
        answer = await answer_in(world, "q")
        assert answer.gang is not None
        assert answer.gang.deadline
        assert any("is bound in part: 1 of 2 members has a node" in note for note in answer.notes)

    in_world(story)


def test_members_that_end_do_not_count_as_come_for_those_who_start_anew() -> None:
    async def story(world: World) -> None:
        world.node("a")
        for name in ("p", "q"):
            world.pod(name, annotations=GANG)
        await world.settle()
        for name in ("p", "q"):
            path = f"/api/v1/namespaces/default/pods/{name}"
            assert world.request("DELETE", path, {"gracePeriodSeconds": 300}) == 200
        world.pod("r", annotations=GANG)
        await world.settle()
        answer = await answer_in(world, "r")
        assert answer.cause == "gang-short"
        assert "needs 2 members at once and 1 has come: 1 member is missing" in answer.why
        assert world.why("r") == "gang default/train needs 2 members at once: 1 has arrived"

    in_world(story)


def test_a_mistyped_name_is_told_what_was_meant() -> None:
    async def story(world: World) -> None:
        world.pod("trainer-0")
        with pytest.raises(InputError, match="did you mean trainer-0"):
            await answer_in(world, "trainr-0")

    in_world(story)


def test_a_name_of_another_namespace_is_found_there() -> None:
    async def story(world: World) -> None:
        world.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-b"}})
        world.pod("p", namespace="team-b")
        with pytest.raises(InputError, match="-n team-b"):
            await answer_in(world, "p")

    in_world(story)


def test_who_comes_first_is_told_to_those_who_wait_for_room() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1)
        world.pod("runs", nodeName="a", priority=9)
        world.pod("urgent", priority=9)
        world.pod("p")
        await world.settle()
        answer = await answer_in(world, "p")
        assert answer.cause == "gpu-busy"
        assert "1 waiting pod would be looked at first: default/urgent" in answer.notes

    in_world(story)


def test_json_lists_the_nodes_of_every_reason() -> None:
    async def story(world: World) -> None:
        world.node("small", gpus=1)
        world.node("cpu", gpus=0, devices=False)
        world.pod("p", gpus=2)
        await world.settle()
        answer = await answer_in(world, "p")
        assert {row.reason: (row.first, row.nodes) for row in answer.reasons} == {
            "gpu-count": (1, ("small",)),
            "no-gpu": (1, ("cpu",)),
        }

    in_world(story)


def test_a_poison_pod_is_told_its_field_and_harms_no_other_answer() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1)
        world.pod("q", gpus=2)
        world.pod("poison", priority="high")
        assert (await answer_in(world, "q")).cause == "gpu-count"
        answer = await answer_in(world, "poison")
        assert (answer.state, answer.cause) == (State.HELD, "malformed")
        assert "$.spec.priority" in answer.why

    in_world(story)


class WithoutBeneficiary(Client):
    """A client whose user may read single objects of a namespace, but list nothing of the cluster."""

    def list_pages(self, *_: Any, **__: Any) -> Any:
        """Refused before the first page."""
        raise Forbidden(Status(403, "Forbidden", "no"))


def test_who_may_not_list_the_cluster_hears_what_the_scheduler_last_said() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1)
        world.pod("p", gpus=2)
        await world.settle()
        client = WithoutBeneficiary(world.transport("system:masters"), world.clock, world.random)
        answer = await ask(client, Settings(identity="explain"), "p", "default", lambda _: None)
        assert answer.cause == "told"
        assert "needs 2 whole GPUs" in answer.why
        assert "may not list" in answer.notes[0]

    in_world(story)


def test_the_role_for_asking_has_all_that_is_read() -> None:
    (role,) = (one for one in manifests((1, 37)) if one["metadata"]["name"] == "gpufleet-explain")
    granted = {
        (group, plural)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for plural in rule["resources"]
        if rule["verbs"] == ["get", "list"]
    }
    read = {(one.kind.group, one.kind.plural) for one in WATCHED}
    read |= {(kind.group, kind.plural) for kind in (*KINDS.values(), EVENTS, RESOURCE_QUOTAS, LIMIT_RANGES)}
    assert read <= granted


def test_a_node_that_cannot_be_read_is_told_beside_the_answer() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1)
        world.node("b", gpus=1)
        broken = {**world.objects("/api/v1/nodes")[1], "status": {"allocatable": {"cpu": "many"}}}
        world.server.store.put(("", "nodes"), ("", "b"), broken, at_s=0.0, user="older-server")
        world.pod("p", gpus=2)
        await world.settle()
        answer = await answer_in(world, "p")
        assert answer.cause == "gpu-count"
        assert any("1 node cannot be read and had to be left out" in note for note in answer.notes)

    in_world(story)


def test_a_report_that_cannot_be_read_is_told_beside_the_answer() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1)
        world.node("b", devices=False)
        device = {"id": "GPU-b-0", "sharing": "half"}
        metadata = {"name": "b"}
        world.add(
            {
                "apiVersion": "gpufleet.io/v1alpha1",
                "kind": "NodeDevices",
                "metadata": metadata,
                "spec": {"devices": [device]},
            }
        )
        world.pod("p", gpus=2)
        await world.settle()
        answer = await answer_in(world, "p")
        assert answer.cause == "gpu-unreported"
        words = "the reports of GPUs of 1 node cannot be read: node b, spec.devices[0].sharing"
        assert words in " ".join(answer.notes)

    in_world(story)


def test_a_placed_pod_whose_containers_do_not_run_is_told_where_the_reason_is() -> None:
    async def story(world: World) -> None:
        world.node("a")
        world.pod("p", nodeName="a")
        status = {"status": {"phase": "Pending", "startTime": "2026-01-01T00:00:00Z"}}
        assert world.request("PATCH", "/api/v1/namespaces/default/pods/p/status", status) == 200
        await world.settle()
        answer = await answer_in(world, "p")
        (note,) = answer.notes
        assert note.startswith("its containers do not run yet; kubectl describe pod p -n default shows")

    in_world(story)


def test_a_pod_that_starts_says_how_long_its_data_is_copied() -> None:
    """141 GB at 1.1 GB/s are 128.18 s."""

    async def story(world: World) -> None:
        world.node("there", gpus=1)
        world.data("there", "org/llama")
        await world.settle()
        reads = {"gpufleet.io/data": "model/org/llama"}
        world.pod("first", annotations=reads)
        await world.settle()
        world.node("elsewhere", gpus=1)
        await world.settle()
        world.pod("second", annotations=reads)
        await world.settle()
        first, second = await answer_in(world, "first"), await answer_in(world, "second")
        assert (first.ready, second.ready) == (
            ReadyRow("there", None, 0.0, None),
            ReadyRow("elsewhere", None, 128.181, None),
        )
        spec = {"entries": [], "copyBytesPerS": 500_000_000}
        slow = {"metadata": {"name": "elsewhere"}, "spec": spec}
        world.add({"apiVersion": "gpufleet.io/v1alpha1", "kind": "NodeData", **slow})
        slower = (await answer_in(world, "second")).ready
        # 141 GB at the 0.5 GB/s that its own copies had.
        assert slower == ReadyRow("elsewhere", None, 282.0, None)
        assert "until it is ready on elsewhere it takes 2m8s to copy its data" in second.notes[-1]
        assert "pull its images and load it on elsewhere is not known" in second.notes[-1]
        world.node("last", gpus=1)
        await world.settle()
        world.pod("other", annotations={"gpufleet.io/data": "model/org/unknown"})
        await world.settle()
        unknown = await answer_in(world, "other")
        assert unknown.ready == ReadyRow("last", None, None, None)
        world.request(
            "PATCH", "/api/v1/namespaces/default/pods/first/status", {"status": {"phase": "Running"}}
        )
        assert (await answer_in(world, "first")).ready is None

    in_world(story)
