"""What a pod holds of its node where the ids of its devices are not (or no longer) those that the node shows.

Nobody can say which device stands for one without a known id: there the engine is asked, and judged by
how many there are. ``ledger`` knows who is where.
"""

from collections.abc import Iterable

from gpufleet.engine.arrays import layout
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.model.device import Serves
from gpufleet.model.identifiers import DeviceId, PodUid
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from tests.engine.plain_fleet import PlainNode


def held(
    state: EngineState, pod: Pod, node: Node | None, ids: tuple[DeviceId | None, ...], *, confirmed: bool
) -> tuple[DeviceId, ...]:
    """Devices that a pod is booked on.

    One that runs holds those that it names, whether its node shows them or not, and some device for
    each that nobody names. One on its way there also holds some device for each that its node does not
    show: the place that was found for it is kept until it is bound or refused.
    """
    count = pod.shape.gpu.count
    shown = set() if node is None else {one.id for one in node.devices}
    named = [one for one in ids[:count] if one is not None]
    sure = named if confirmed else [one for one in named if one in shown]
    if node is None or len(sure) == count:
        return tuple(sure)
    booked = devices_of(state, pod.uid)
    assert shown.intersection(sure) <= set(booked), f"{pod.uid} holds {sure} and is booked on {booked}"
    return tuple({*sure, *booked})


def devices_of(state: EngineState, uid: PodUid) -> list[DeviceId]:
    """The devices that the engine's arrays say a pod holds."""
    row = state.pods.row_by_uid[uid]
    cells = state.store.tables.pod_devices[row, : state.pods.pod_at(row).shape.gpu.count].tolist()
    return [state.fleet.device_ids[device] for device in cells if device != layout.NOT_SET]


def check_amounts_kept(place: PlainNode, on_their_way: Iterable[tuple[Pod, tuple[DeviceId, ...]]]) -> None:
    """No pod on its way to a node that just changed holds less there than was decided while any is free."""
    free = [
        one.device.id
        for one in place.devices
        if one.device.healthy and not one.holders and Serves.WHOLE in one.device.serves
    ]
    for pod, devices in on_their_way:
        short = pod.shape.gpu.count - len(devices)
        assert not short or not free, f"{pod.uid} lacks {short} devices on its way, and {free} are free"
