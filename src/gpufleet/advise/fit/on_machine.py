"""Asks this machine's own drivers which GPUs it has, and where on them a model fits."""

import platform
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from gpufleet.advise.fit.ask import cards_of, model_of
from gpufleet.devices.backend import Backend
from gpufleet.devices.device_errors import DriverError
from gpufleet.devices.facts import GpuFacts
from gpufleet.fit.answer import Answer
from gpufleet.fit.basis import Basis
from gpufleet.fit.catalogue import CardEntry, cards
from gpufleet.fit.mixed_cards import together
from gpufleet.fit.options import Options, serving_of
from gpufleet.fit.question import CONTEXT
from gpufleet.fit.running_well import RunnableModel, runnable_models
from gpufleet.fit.search import answer
from gpufleet.model import gpu_model
from gpufleet.model.model_errors import InputError

HELD_MIB = 1024
"""A program that holds more memory of a GPU than a display needs computes on it: that GPU is left out."""


class MachineAnswer(msgspec.Struct, frozen=True):
    """The answer for the cards of this machine, and which of its GPUs are left out and why."""

    answer: Answer
    left_out: tuple[str, ...]


class MachineModels(msgspec.Struct, frozen=True):
    """The cards of this machine, what runs well on them, and which of its GPUs are left out and why."""

    context: int
    cards: tuple[CardEntry, ...]
    models: tuple[RunnableModel, ...]
    left_out: tuple[str, ...]


def ask_machine(options: Options, backends: Iterable[Backend]) -> MachineAnswer:
    """The answer; raises InputError where the machine has no GPU that it can be asked for."""
    model = model_of(options.model, from_hub=options.from_hub)
    found, left_out = _found(options, backends)
    asked, most = max(options.tensor_parallel, 1) * max(options.stages, 1), max(map(len, found.values()))
    if asked > most:
        raise InputError("this machine has fewer GPUs of one kind", value=asked, expected=f"at most {most}")
    chosen = _cards(found)
    if len(chosen) > 1 and len({card.gpu.vendor for card in chosen}) == 1:
        chosen = (*chosen, together([(card, card.gpus_per_node_max) for card in chosen]))
    said = answer(model, serving_of(options, model).on_one_machine, chosen, proposes=True)
    return MachineAnswer(said, left_out)


def ask_what_runs(options: Options, backends: Iterable[Backend]) -> MachineModels:
    """What runs well on this machine; raises InputError where it has no GPU that it can be asked for."""
    found, left_out = _found(options, backends)
    chosen = _cards(found)
    return MachineModels(options.context or CONTEXT, chosen, runnable_models(chosen, options), left_out)


def _cards(found: dict[str, list[GpuFacts]]) -> tuple[CardEntry, ...]:
    known = {card.model: card for card in cards()}
    return tuple(_as_found(known[name], gpus) for name, gpus in found.items())


def _found(
    options: Options, backends: Iterable[Backend]
) -> tuple[dict[str, list[GpuFacts]], tuple[str, ...]]:
    """The GPUs that can be had by the name of their card, and those that are left out."""
    named = {card.model for card in cards_of(options.gpus)}
    known = {card.model for card in cards()}
    found: dict[str, list[GpuFacts]] = {}
    left_out: list[str] = []
    silent: list[str] = []
    for gpu, why_not in _gpus(backends, silent):
        card = gpu_model.find(gpu.product)
        name = str(card.name) if card is not None else ""
        if why_not or name not in known:
            left_out.append(f"{gpu.product}, index {gpu.index}: {why_not or 'no card of the catalogue'}")
        elif name in named:
            found.setdefault(name, []).append(gpu)
    if not found:
        raise InputError(
            "this machine has no whole GPU of a known model" + (" that was named" if options.gpus else ""),
            field="--here",
            value=(left_out or silent)[:10] or None,
            expected="a GPU of NVIDIA, AMD or Intel with its driver, or --gpu without --here",
        )
    return found, tuple(left_out)


def own_backends(root: Path = Path("/")) -> Iterator[Backend]:
    """Those of the vendors whose cards have figures; a vendor's library is loaded when it is opened."""
    from gpufleet.devices.amd.backend import AmdBackend
    from gpufleet.devices.drm_cards import Roots
    from gpufleet.devices.intel.backend import IntelBackend
    from gpufleet.devices.nvidia.backend import NvidiaBackend

    roots = Roots(root / "sys", root / "dev", platform.release())
    yield NvidiaBackend(root, clock_s=time.monotonic, wall_s=time.time)
    yield AmdBackend(roots, time.monotonic)
    yield IntelBackend(roots, time.monotonic)


def _gpus(backends: Iterable[Backend], silent: list[str]) -> Iterator[tuple[GpuFacts, str]]:
    """Every GPU that a driver lists, and why it is not to be had, if so; ``silent`` gets what drivers that do
    not answer say.
    """
    for backend in backends:
        try:
            backend.open()
        except DriverError as error:
            # A machine has the driver of one vendor.
            silent.append(str(error))
            continue
        try:
            for gpu in backend.fleet().gpus:
                yield gpu, _why_not(backend, gpu)
        finally:
            backend.close()


def _why_not(backend: Backend, gpu: GpuFacts) -> str:
    if gpu.mig_enabled:
        return "it is cut by MIG"
    try:
        held = backend.sample(gpu.uuid).memory.used_mib
    except DriverError as error:
        return str(error)
    if held is not None and held > HELD_MIB:
        return f"programs hold {held:,} MiB of it"
    return ""


def _as_found(card: CardEntry, gpus: list[GpuFacts]) -> CardEntry:
    """The card with as many as there are, and the least memory that the driver tells of one."""
    found = msgspec.structs.replace(card, gpus_per_node_max=len(gpus))
    told = [gpu.memory_mib - (gpu.reserved_mib or 0) for gpu in gpus if gpu.memory_mib is not None]
    if len(told) < len(gpus) or min(told) >= card.usable_mib:
        # What programs were seen to find is less than what the driver counts.
        return found
    basis = Basis(checked="now", read="the driver of this machine")
    return msgspec.structs.replace(found, usable_mib=min(told), usable_basis=basis)
