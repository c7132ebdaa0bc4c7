"""How long the steps of a change of a card take, as values and in words.

``agent.mig.timed_driver`` measures them; a Node says them with the state of the card (``wanted``).
"""

import enum

import msgspec

from gpufleet.mig.change import Call, MakeComputeInstance, MakeGpuInstance, ResetCard, SetMode


class Step(enum.Enum):
    """A step on the way to a layout, as the label of metrics has it."""

    MODE = "mode"
    REMOVE = "remove"
    MAKE = "make"
    LIST = "list"
    """The driver lists its devices anew, and the agent offers them."""


def step_of(call: Call) -> Step:
    """The step that a call belongs to."""
    match call:
        case SetMode() | ResetCard():
            return Step.MODE
        case MakeGpuInstance() | MakeComputeInstance():
            return Step.MAKE
        case _:
            return Step.REMOVE


class StepTimes(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Seconds by step; a step that was not taken has none."""

    mode_s: float | None = None
    remove_s: float | None = None
    make_s: float | None = None
    list_s: float | None = None

    def plus(self, step: Step, took_s: float) -> "StepTimes":
        """With more time for a step, in thousandths: a Node is written with it."""
        name = f"{step.value}_s"
        before: float = getattr(self, name) or 0.0
        return msgspec.structs.replace(self, **{name: round(before + took_s, 3)})

    @property
    def total_s(self) -> float:
        """All steps together."""
        return sum(one or 0.0 for one in (self.mode_s, self.remove_s, self.make_s, self.list_s))

    @property
    def is_change(self) -> bool:
        """Whether the card was changed: listing devices alone changes nothing."""
        return any(one is not None for one in (self.mode_s, self.remove_s, self.make_s))

    @property
    def words(self) -> str:
        """Each step that was taken: MIG mode 1.0 s, instances made 2.1 s."""
        named = (
            ("MIG mode", self.mode_s),
            ("instances removed", self.remove_s),
            ("instances made", self.make_s),
            ("devices listed", self.list_s),
        )
        return ", ".join(f"{name} {took_s:.1f} s" for name, took_s in named if took_s is not None)
