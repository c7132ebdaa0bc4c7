"""The judge of a node at rest finds nothing where all agree, and each thing that differs."""

from typing import Any

import msgspec
import pytest

from gpufleet.agent.device_plugin.open_call_record import OpenCall
from gpufleet.agent.device_plugin.share_files import ShareGiven
from gpufleet.agent.kubelet.kubelet_checkpoint import CheckpointEntry
from gpufleet.agent.state.node_state import Held
from gpufleet.kube.objects.node_devices import Holder
from gpufleet.model.grant import GrantedDevice, GrantKind
from gpufleet.model.identifiers import DeviceId
from tests.agent.node_values import GPU, SHARE
from tests.agent.rest_judge import Granted, Rest, disagreements


def a_share(uuid: str, milli: int) -> GrantedDevice:
    return GrantedDevice(DeviceId(uuid), GrantKind.SHARE, milli, 1000)


HALF, OTHER_HALF = a_share("GPU-b", 500), a_share("GPU-b", 400)
REST = Rest(
    {
        "u1": Granted("whole", (GrantedDevice(DeviceId("GPU-a")),)),
        "u2": Granted("runs", (HALF,)),
        "u3": Granted("waits", (OTHER_HALF,), started=False),
        "u4": Granted("other", (GrantedDevice(DeviceId("GPU-c")),)),
    },
    (
        Holder("GPU-a", "u1"),
        Holder("GPU-b", "u2", gpu_milli=500),
        Holder("GPU-b", "u3", gpu_milli=400),
        Holder("GPU-c", "u4"),
    ),
    (
        Held("default", "whole", "main", GPU, ("GPU-a",)),
        Held("default", "runs", "main", SHARE, ("share-0",)),
        Held("default", "waits", "main", SHARE, ("share-1",)),
        Held("default", "other", "main", GPU, ("GPU-c",)),
    ),
    (
        CheckpointEntry("u1", "main", GPU, frozenset({"GPU-a"})),
        CheckpointEntry("u2", "main", SHARE, frozenset({"share-0"}), ("gpufleet.io/share=one",)),
        CheckpointEntry("u3", "main", SHARE, frozenset({"share-1"}), ("gpufleet.io/share=two",)),
        CheckpointEntry("u4", "main", GPU, frozenset({"GPU-c"})),
        CheckpointEntry("gone", "main", GPU, frozenset({"GPU-a"})),
    ),
    {"one": ShareGiven("u2", "default/runs", "main", 1, (HALF,))},
    (OpenCall("two", ("share-1",)),),
)

NAMELESS = CheckpointEntry("u3", "main", SHARE, frozenset({"share-1"}))


def changed(**fields: Any) -> Rest:
    return msgspec.structs.replace(REST, **fields)


def swapped() -> Rest:
    """The two pods with a whole GPU have each other's, and everybody knows."""
    others = {"GPU-a": "GPU-c", "GPU-c": "GPU-a"}
    return changed(
        reported=tuple(
            msgspec.structs.replace(one, device=others.get(one.device, one.device)) for one in REST.reported
        ),
        held=tuple(
            msgspec.structs.replace(one, units=tuple(others.get(unit, unit) for unit in one.units))
            for one in REST.held
        ),
        record=tuple(
            msgspec.structs.replace(one, units=frozenset(others.get(unit, unit) for unit in one.units))
            for one in REST.record
        ),
    )


@pytest.mark.parametrize("calls", [REST.calls, ()])
def test_where_all_agree_nothing_is_found(calls: tuple[OpenCall, ...]) -> None:
    assert disagreements(changed(calls=calls)) == []


def test_twins_may_have_each_others_gpu_where_everybody_knows() -> None:
    assert disagreements(swapped()) == []
    assert disagreements(changed(held=swapped().held, record=swapped().record)) != []


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        (changed(reported=REST.reported[1:]), "whole GPUs were granted"),
        (changed(reported=(*REST.reported, Holder("GPU-d", "u9"))), "no living pod"),
        (changed(reported=(*REST.reported, Holder("GPU-b", "u3", gpu_milli=200))), "1100 milli of GPU-b"),
        (changed(held=REST.held[1:]), "by PodResources"),
        (changed(held=(*REST.held, Held("default", "ghost", "main", GPU, ("GPU-d",)))), "ghost"),
        (changed(record=REST.record[1:]), "by the kubelet's record"),
        (changed(record=(*REST.record[:2], NAMELESS, *REST.record[3:])), "was answered ()"),
        (changed(files={}), "has 0 CDI files"),
        (changed(files={"one": ShareGiven("u2", "default/runs", "main", 1, (OTHER_HALF,))}), "a CDI file"),
        (changed(files={**REST.files, "x": ShareGiven("u9", "a/b", "main", 1, (HALF,))}), "a CDI file"),
        (changed(calls=(*REST.calls, OpenCall("x", ("share-7",)))), "calls of nobody"),
        (changed(calls=(*REST.calls, OpenCall("x", ("share-0",)))), "its call is open"),
        (changed(damage="is damaged"), "is damaged"),
    ],
)
def test_what_differs_is_named(rest: Rest, words: str) -> None:
    assert words in " ".join(disagreements(rest))
