"""The GPUs at hand: a node list under the catalogue's names, the nodes that samples name, or measured cards.

``packing`` places on them; a card's memory is the fleet's word where it has one, else the catalogue's.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from gpufleet.model.device import Device, Serves
from gpufleet.model.gpu_model import find
from gpufleet.model.identifiers import DeviceId, GpuModelName, NodeName
from gpufleet.model.model_errors import InputError
from gpufleet.model.node import Node
from gpufleet.model.resources import MEBIBYTE, Resources
from gpufleet.usage.measured_cards import Card, Host
from gpufleet.usage.samples import GPUS_MAX, Sample

PODS_MAX = 110
"""The kubelet's default for ``maxPods``."""


def known_fleet(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """A node list with the catalogue's names of GPUs, and its memory where the list says none."""
    return tuple(
        msgspec.structs.replace(node, devices=tuple(_known(device) for device in node.devices))
        for node in nodes
    )


def named_fleet(samples: Iterable[Sample], step_s: int) -> tuple[Node, ...]:
    """The nodes of the samples, each with as many GPUs as its pods held at one instant.

    It has the CPU and memory that they asked for at one instant, because nothing says that there is more.
    """
    held: dict[str, dict[int, dict[str, Sample]]] = {}
    for sample in samples:
        if not sample.node or not sample.gpu_model:
            raise InputError(
                "the GPUs of the fleet are not named",
                where=f"workload {sample.workload}, pod {sample.pod}",
                field="gpu_model" if sample.node else "node",
                expected="a node list (--nodes), or the columns node and gpu_model in every row",
            )
        held.setdefault(sample.node, {}).setdefault(sample.at_s // step_s, {})[sample.pod] = sample
    return tuple(_node(name, instants) for name, instants in sorted(held.items()))


def fleet_of(cards: Iterable[Card], hosts: Mapping[str, Host]) -> tuple[Node, ...]:
    """The nodes of cards that were measured, each GPU at its index, so that a configuration may name it.

    A node with unknown CPU and memory has none, and takes pods that ask for none. An index of which nothing
    was measured takes no pod.
    """
    by_host: dict[str, dict[int, Card]] = {}
    for card in cards:
        by_host.setdefault(card.host, {})[card.index] = card
    return tuple(
        Node(NodeName(host), _resources(hosts.get(host, Host())), _devices(host, found))
        for host, found in sorted(by_host.items())
    )


def _resources(host: Host) -> Resources:
    return Resources(host.cpu_milli, host.memory_mib * MEBIBYTE, PODS_MAX)


def _devices(host: str, cards: dict[int, Card]) -> tuple[Device, ...]:
    any_card = next(iter(cards.values()))
    found = []
    for index in range(max(cards) + 1):
        card = cards.get(index)
        # An index of which nothing was measured needs a card too, or those above it would get other indices.
        model = GpuModelName((card or any_card).model)
        serves = Serves.ANY if card is not None and card.is_free else Serves.NOTHING
        found.append(_known(Device(DeviceId(f"{host}/{index}"), model, serves=serves)))
    return tuple(found)


def card_mib(nodes: Sequence[Node], model: str) -> int:
    """The memory of the smallest GPU of a model; raises InputError if the fleet has no such GPU or one's
    memory is not known.
    """
    found = [device.memory_mib for node in nodes for device in node.devices if device.model == model]
    if not found:
        raise InputError("no GPU of this model in the fleet", field="gpu_model", value=model)
    known = [memory for memory in found if memory is not None]
    if len(known) < len(found):
        raise InputError("its memory is not known", field="gpu_memory_mib", value=model)
    return min(known)


def only_model(nodes: Sequence[Node]) -> str:
    """The model of all GPUs, "" if there are several or none."""
    models = {str(device.model) for node in nodes for device in node.devices}
    return models.pop() if len(models) == 1 else ""


def _known(device: Device) -> Device:
    model = find(device.model)
    if model is None:
        return device
    return msgspec.structs.replace(device, model=model.name, memory_mib=device.memory_mib or model.memory_mib)


def _node(name: str, instants: dict[int, dict[str, Sample]]) -> Node:
    pods = [list(each.values()) for each in instants.values()]
    models = {sample.gpu_model for each in pods for sample in each}
    if len(models) > 1:
        raise InputError("one node with GPUs of several models", field="node", value=name)
    count = max(sum(sample.gpus for sample in each) for each in pods)
    if count > GPUS_MAX:
        raise InputError(
            "more GPUs than a node has", field="node", value=name, expected=f"at most {GPUS_MAX}"
        )
    cpu_milli = max(sum(sample.cpu_milli for sample in each) for each in pods)
    host_mib = max(sum(sample.host_memory_mib for sample in each) for each in pods)
    model = GpuModelName(models.pop())
    devices = tuple(_known(Device(DeviceId(f"{name}/{at}"), model)) for at in range(count))
    return Node(NodeName(name), Resources(cpu_milli, host_mib * MEBIBYTE, PODS_MAX), devices)
