"""Random cases: a seed and a number give a case, always the same one.

A theme is a concern of scheduling. A case has one to three of them, so that most nodes fail for few
reasons and some for none: where everything is against a pod, nothing is tested.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.differential.builder import Builder
from tests.differential.cases import Case, Manifest
from tests.differential.draw import Draw
from tests.differential.themes import amounts, doors, neighbours, places, storage


def nothing(_: Builder) -> None:
    """A theme that concerns only the pod."""


@dataclass(frozen=True)
class Theme:
    """What is there before, and what a pod asks."""

    ask: Callable[[Builder, Manifest], None]
    furnish: Callable[[Builder], None] = nothing


def ask_nothing(_: Builder, __: Manifest) -> None:
    """A theme that concerns only what is there."""


THEMES: Mapping[str, Theme] = {
    "amounts": Theme(amounts.ask, amounts.furnish),
    "labels": Theme(places.ask_nodes, places.furnish_labels),
    "taints": Theme(places.ask_tolerance, places.furnish_taints),
    "ports": Theme(doors.ask_ports, doors.furnish_ports),
    "features": Theme(doors.ask_features, doors.furnish_features),
    "crowd": Theme(ask_nothing, doors.furnish_crowd),
    "gates": Theme(doors.ask_gates),
    "affinity": Theme(neighbours.ask_affinity, neighbours.furnish),
    "spread": Theme(neighbours.ask_spread, neighbours.furnish_spread),
    "storage": Theme(storage.ask, storage.furnish),
}
WEIGHTS = {"amounts": 3, "labels": 2, "taints": 2, "affinity": 4, "spread": 4, "storage": 4, "gates": 0.3}


def make_case(seed: int, number: int) -> Case:
    """The case of this number."""
    token = f"case-{number}"
    draw = Draw(f"{seed}/{number}")
    case = Builder(token, draw)
    chosen: dict[str, Theme] = {}
    for name in draw.choices(
        list(THEMES), [WEIGHTS.get(name, 1) for name in THEMES], k=draw.one(1, 1, 2, 2, 3)
    ):
        chosen[name] = THEMES[name]
    for name in THEMES:
        if name in chosen:
            chosen[name].furnish(case)
            for pod in case.asked:
                chosen[name].ask(case, pod)
    origin = f"case {number} of seed {seed}"
    return Case(token, case.objects, tuple(case.asked), tuple(sorted(chosen)), origin)
