"""The part of a GPU that a pod asks for, in each of the notations in use.

Our annotations and KAI's speak of the pod; HAMi's and Volcano's are resources of a container. All of them end
in one ``GpuShare``, the same for each of the pod's devices, and in the number of devices, which must be the
number of slots (``gpufleet.io/gpu-share``) in the container's limits: the kubelet counts nothing else. A pod
that uses two notations must say the same in both.
"""

from collections.abc import Iterator, Mapping

import msgspec

from gpufleet.kube import keys
from gpufleet.model.gpu_share import GpuShare, parse_fraction_milli, parse_memory_mib
from gpufleet.model.model_errors import InputError, printable
from gpufleet.model.quantity import parse_quantity
from gpufleet.model.requests import GPUS_A_POD_MAX, ContainerAmounts, PodAmounts, device_count
from gpufleet.model.resource_names import GPU_RESOURCES

_OUR_KEYS = (keys.GPU_FRACTION, keys.GPU_MEMORY)
_KAI_KEYS = (keys.KAI_FRACTION, keys.KAI_MEMORY)
_DESCRIBING = frozenset(keys.SHARE_RESOURCES)
WHOLE = GpuShare(1000)
"""A share of 1000 thousandths: the pod has its GPU alone."""

# HAMi and Volcano count memory and processors of a GPU in percent.
_PERCENT = 100
_MILLI_PER_PERCENT = 10


class AskedShare(msgspec.Struct, frozen=True):
    """A share that is asked for, where it is written, and of how many devices if that is said."""

    share: GpuShare
    place: str
    devices: int | None = None
    container: str | None = None


def says_share(labels: Mapping[str, str], annotations: Mapping[str, str]) -> bool:
    """Whether a pod speaks of a share outside of the resources of its containers."""
    in_our_words = any(key in labels or key in annotations for key in _OUR_KEYS)
    return in_our_words or any(key in annotations for key in _KAI_KEYS)


def without_share_resources(pod: PodAmounts) -> PodAmounts:
    """The amounts without resources that only describe a share, which no node offers."""
    containers = (*pod.containers, *pod.init_containers)
    if all(_DESCRIBING.isdisjoint(one.requests) and _DESCRIBING.isdisjoint(one.limits) for one in containers):
        return pod
    return msgspec.structs.replace(
        pod,
        containers=tuple(_without_description(one) for one in pod.containers),
        init_containers=tuple(_without_description(one) for one in pod.init_containers),
    )


def _without_description(container: ContainerAmounts) -> ContainerAmounts:
    requests, limits = (
        {name: text for name, text in amounts.items() if name not in _DESCRIBING}
        for amounts in (container.requests, container.limits)
    )
    return msgspec.structs.replace(container, requests=requests, limits=limits)


def read_share(labels: Mapping[str, str], annotations: Mapping[str, str], pod: PodAmounts) -> GpuShare | None:
    """The share of each GPU that a pod asks for; None if it asks for whole GPUs or for none.

    ``pod`` are the amounts as written. Raises InputError, naming the field, for what cannot be.
    """
    asked = [*_asked_of_pod(labels, annotations), *_asked_of_containers(pod)]
    slots = {name: count for name, count in slots_by_container(pod).items() if count}
    if not asked:
        if slots:
            expected = f"{keys.GPU_FRACTION} or {keys.GPU_MEMORY} as an annotation"
            where = ", ".join(slots)
            raise InputError(
                "a slot for a share, but no share", field=f"containers {where}", expected=expected
            )
        return None
    first = asked[0]
    for other in asked[1:]:
        if other.share != first.share:
            problem = f"another share than {first.place} says"
            raise InputError(problem, field=other.place, expected="one share for all GPUs of the pod")
    for each in asked:
        _check_devices(each, slots)
    return first.share


def slots_by_container(pod: PodAmounts) -> dict[str, int]:
    """The slots for shares that each container asks for."""
    return {
        container.name: device_count(container.requests, container.limits, (keys.GPU_SHARE,), place)
        for place, container in _places(pod)
    }


def _places(pod: PodAmounts) -> Iterator[tuple[str, ContainerAmounts]]:
    """Every container with its path, as a person finds it in the pod."""
    for container in pod.init_containers:
        yield f"spec.initContainers[{container.name}]", container
    for container in pod.containers:
        yield f"spec.containers[{container.name}]", container


def _check_devices(asked: AskedShare, slots: Mapping[str, int]) -> None:
    """The slots are what the kubelet counts, so there must be one for each device."""
    total = sum(slots.values())
    if not slots:
        expected = f"{keys.GPU_SHARE} in the limits of the container that uses it"
        raise InputError("a share of a GPU without its slot", field=asked.place, expected=expected)
    if asked.container is not None and asked.container not in slots:
        problem = f"container {asked.container!r} has no slot"
        raise InputError(problem, field=asked.place, expected=f"{keys.GPU_SHARE} in its limits")
    count = total if asked.container is None else slots[asked.container]
    if asked.devices is not None and asked.devices != count:
        problem = f"{asked.devices} devices, but {count} slots"
        raise InputError(problem, field=asked.place, expected=f"as many {keys.GPU_SHARE} as devices")


def _asked_of_pod(labels: Mapping[str, str], annotations: Mapping[str, str]) -> Iterator[AskedShare]:
    ours = {key: _own(annotations, labels, key) for key in _OUR_KEYS}
    fraction, memory = ours[keys.GPU_FRACTION], ours[keys.GPU_MEMORY]
    if fraction is not None or memory is not None:
        key = keys.GPU_MEMORY if fraction is None else keys.GPU_FRACTION
        yield AskedShare(_share(fraction, memory, keys.GPU_FRACTION, keys.GPU_MEMORY), _annotation(key))
    yield from _asked_of_kai(annotations)


def _asked_of_kai(annotations: Mapping[str, str]) -> Iterator[AskedShare]:
    fraction, memory = annotations.get(keys.KAI_FRACTION), annotations.get(keys.KAI_MEMORY)
    devices, container = annotations.get(keys.KAI_DEVICES), annotations.get(keys.KAI_CONTAINER)
    place = _annotation(keys.KAI_MEMORY if fraction is None else keys.KAI_FRACTION)
    if fraction is None and memory is None:
        if devices is not None:
            expected = f"{keys.KAI_FRACTION} or {keys.KAI_MEMORY} too"
            raise InputError(
                "a number of shares, but no share", field=_annotation(keys.KAI_DEVICES), expected=expected
            )
        return
    if fraction is not None and memory is not None:
        problem = f"{keys.KAI_FRACTION} and {keys.KAI_MEMORY} at once"
        raise InputError(problem, field=place, expected="one of them")
    count = None if devices is None else _count(devices, _annotation(keys.KAI_DEVICES))
    yield AskedShare(_share(fraction, memory, keys.KAI_FRACTION, keys.KAI_MEMORY), place, count, container)


def _own(annotations: Mapping[str, str], labels: Mapping[str, str], key: str) -> str | None:
    """Our keys are read from annotations and from labels; in both they must say the same."""
    annotation, label = annotations.get(key), labels.get(key)
    if annotation is not None and label is not None and annotation != label:
        problem = "annotation and label differ"
        raise InputError(
            problem, field=_annotation(key), value=annotation, expected=f"the label's {printable(label)}"
        )
    return label if annotation is None else annotation


def _share(fraction: str | None, memory: str | None, fraction_key: str, memory_key: str) -> GpuShare:
    milli = 0 if fraction is None else parse_fraction_milli(fraction, field=_annotation(fraction_key))
    memory_mib = None if memory is None else parse_memory_mib(memory, field=_annotation(memory_key))
    return GpuShare(milli, memory_mib)


def _asked_of_containers(pod: PodAmounts) -> Iterator[AskedShare]:
    """A container that describes its devices with HAMi's or Volcano's resources."""
    for field, container in _places(pod):
        amounts = {**container.requests, **container.limits}
        if keys.HAMI_PRIORITY in amounts:
            # HAMi's priority of tasks on a shared card acts on the node; here it only must be a number.
            _whole_amount(amounts, keys.HAMI_PRIORITY, field)
        if any(key in amounts for key in (keys.HAMI_MEMORY, keys.HAMI_MEMORY_PERCENT, keys.HAMI_CORES)):
            share = _described(amounts, field, keys.HAMI_MEMORY, keys.HAMI_MEMORY_PERCENT, keys.HAMI_CORES)
            whole = device_count(container.requests, container.limits, GPU_RESOURCES, field)
            yield AskedShare(share, field, whole or None, container.name)
        volcano = (keys.VOLCANO_MEMORY, keys.VOLCANO_MEMORY_PERCENT, keys.VOLCANO_CORES)
        if keys.VOLCANO_NUMBER in amounts or any(key in amounts for key in volcano):
            share = _described(amounts, field, *volcano)
            count = _whole_amount(amounts, keys.VOLCANO_NUMBER, field)
            if not count:
                expected = f"{keys.VOLCANO_NUMBER} of 1 or more"
                raise InputError("a share of no GPU", field=f"{field}.resources.limits", expected=expected)
            yield AskedShare(share, field, count, container.name)


def _described(amounts: Mapping[str, str], field: str, memory: str, percent: str, cores: str) -> GpuShare:
    """A share by memory in MiB or percent, and by percent of the processors.

    Without a word on memory, all of it is meant. Memory in percent and processors are one fraction to us, so
    the larger of the two is taken for both.
    """
    memory_mib = _whole_amount(amounts, memory, field)
    memory_percent = _percentage(amounts, percent, field)
    core_percent = _percentage(amounts, cores, field)
    if memory_mib is not None and memory_mib and memory_percent:
        problem = f"{memory} and {percent} at once"
        raise InputError(problem, field=f"{field}.resources.limits", expected="one of them")
    if memory_mib == 0 or memory_percent == 0:
        name = memory if memory_mib == 0 else percent
        place = f"{field}.resources.limits[{name}]"
        raise InputError("a share without memory", field=place, value=0, expected="1 or more")
    core_milli = (core_percent or 0) * _MILLI_PER_PERCENT
    if memory_mib is not None:
        if memory_mib >= 2**31:
            place = f"{field}.resources.limits[{memory}]"
            raise InputError("out of range", field=place, value=memory_mib, expected="MiB below 2^31")
        return GpuShare(core_milli, memory_mib)
    fraction = _PERCENT if memory_percent is None else memory_percent
    return GpuShare(max(core_milli, fraction * _MILLI_PER_PERCENT))


def _percentage(amounts: Mapping[str, str], name: str, field: str) -> int | None:
    number = _whole_amount(amounts, name, field)
    if number is not None and number > _PERCENT:
        place = f"{field}.resources.limits[{name}]"
        raise InputError(
            "more than a card", field=place, value=number, expected="a percentage of at most 100"
        )
    return number


def _whole_amount(amounts: Mapping[str, str], name: str, field: str) -> int | None:
    text = amounts.get(name)
    if text is None:
        return None
    place = f"{field}.resources.limits[{name}]"
    amount = parse_quantity(text, field=place)
    if not amount.is_whole() or amount.value() < 0:
        raise InputError("not a whole number", field=place, value=text, expected="a whole number")
    return amount.value()


def _count(text: str, field: str) -> int:
    # The length first: Python refuses to read numbers of more than 4,300 digits.
    plain = text.isascii() and text.isdecimal() and len(text) <= 7
    if not plain or not 0 < int(text) <= GPUS_A_POD_MAX:
        expected = f"a whole number from 1 to {GPUS_A_POD_MAX}"
        raise InputError("not a number of devices", field=field, value=text, expected=expected)
    return int(text)


def _annotation(key: str) -> str:
    return f"metadata.annotations[{key}]"
