"""Pools of simulated nodes as text: ``10:H100-80GB:8`` is ten nodes with eight H100 each.

``4:A100-80GB:8:3g.40gb,2g.20gb`` cuts each of their GPUs into these MIG instances, ``7x1g.10gb`` stands for
seven, and ``3:none`` is three nodes without a GPU. ``simulated_nodes`` makes the nodes.
"""

import re
from dataclasses import replace

from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from gpufleet.model.gpu_catalogue import GpuModel
from gpufleet.model.gpu_model import matching
from gpufleet.model.mig import Layout
from gpufleet.model.mig_boards import BOARDS
from gpufleet.model.model_errors import InputError

GPUS_OF_A_NODE = 8
"""Most servers for training have eight."""

GPUS_MAX = 64
"""More than any machine that is sold has; a mistyped number is told instead of simulated."""

NODES_MAX = 10_000
"""The largest fleet that the scheduler is measured on."""

WITHOUT_GPU = "none"
FORM = "NODES:MODEL[:GPUS[:PROFILES]], such as 10:H100-80GB:8 or 4:A100-80GB:8:7x1g.10gb"
_REPEATED = re.compile(r"(?:([1-9])x)?(.+)")


def read_pools(texts: tuple[str, ...], field: str = "--pool") -> tuple[SimulatedNodes, ...]:
    """The pools in their order, with nodes numbered through. Raises InputError."""
    found: list[SimulatedNodes] = []
    for text in texts:
        pool = _read_pool(text, field)
        found.append(replace(pool, first=1 + sum(one.count for one in found)))
    nodes = sum(one.count for one in found)
    if nodes > NODES_MAX:
        raise InputError("too many nodes", field=field, value=nodes, expected=f"at most {NODES_MAX} together")
    return tuple(found)


def cut(model: GpuModel, text: str, field: str) -> Layout:
    """The instances of "3g.40gb,2x1g.10gb" on one GPU of the model, the large ones placed first.

    Raises InputError where the model cannot be cut, knows no such profile, or has no room for all of them.
    """
    board = BOARDS.get(model.name)
    if board is None:
        able = ", ".join(str(name) for name in BOARDS)
        raise InputError(
            "cannot be cut by MIG", field=field, value=str(model.name), expected=f"one of {able}"
        )
    names = []
    for part in text.split(","):
        repeated = _REPEATED.fullmatch(part.strip())
        names += [] if repeated is None else [repeated[2]] * int(repeated[1] or 1)
    profiles = []
    for name in names:
        try:
            profiles.append(board.profile(name))
        except InputError as error:
            known = ", ".join(one.name for one in board.profiles)
            raise InputError(
                f"no MIG profile of {model.name}", field=field, value=name, expected=f"one of {known}"
            ) from error
    layout = board.placed(profiles)
    if layout is None or not profiles:
        most = "; ".join(f"{one.maximum} x {one.name}" for one in board.plain_profiles)
        raise InputError(
            f"these instances do not fit on one {model.name}",
            field=field,
            value=text,
            expected=f"fewer or smaller ones; alone there may be {most}",
        )
    return layout


def _read_pool(text: str, field: str) -> SimulatedNodes:
    parts = text.split(":")
    if not 2 <= len(parts) <= 4:
        raise InputError("no pool of nodes", field=field, value=text, expected=FORM)
    count = _number(parts[0], "the number of nodes", NODES_MAX, text, field)
    if parts[1] == WITHOUT_GPU:
        if len(parts) > 2:
            expected = f"{count}:{WITHOUT_GPU}"
            raise InputError(
                "a pool without GPUs has nothing more to say", field=field, value=text, expected=expected
            )
        return SimulatedNodes(count, 0, matching("H100-80GB")[0])
    model = gpu_model(parts[1], field)
    gpus = GPUS_OF_A_NODE
    if len(parts) > 2:
        gpus = _number(parts[2], "the number of GPUs of a node", GPUS_MAX, text, field)
    mig = cut(model, parts[3], field) if len(parts) == 4 else ()
    return SimulatedNodes(count, gpus, model, mig=mig)


def _number(text: str, what: str, most: int, whole: str, field: str) -> int:
    # More digits than these are too many in any case, and are not read.
    if not (text.isascii() and text.isdecimal()) or len(text) > 6 or not 1 <= int(text) <= most:
        problem = f"{what} is {text or 'missing'}"
        raise InputError(problem, field=field, value=whole, expected=f"1 to {most}; {FORM}")
    return int(text)
