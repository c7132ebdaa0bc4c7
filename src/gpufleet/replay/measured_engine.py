"""The engine of a replay: every step is measured, and logged if a log is asked for.

The time spent inside (deciding and learning) is what a replay reports as decision time. ``saturate`` and
``timeline`` play it in virtual time, each in its own way.
"""

import time
from collections.abc import Sequence
from typing import Protocol

from gpufleet import __version__
from gpufleet.engine.engine_errors import BrokenInvariantError
from gpufleet.engine.event import Event, NodeSet, TargetWorkloadSet, ValuationLearned
from gpufleet.engine.event_log import header_line, step_line
from gpufleet.engine.instruction import AnyInstruction, Rejected
from gpufleet.engine.policy import Policy
from gpufleet.engine.preempt.by_name import BY_QUEUES, find_search
from gpufleet.engine.scheduler import Engine
from gpufleet.model.node import Node
from gpufleet.model.shape import Shape


class LineSink(Protocol):
    """Anything that takes the lines of a log."""

    def write(self, line: bytes, /) -> object:
        """Take one line."""
        ...


class MeasuredEngine:
    """An engine with a fleet in it; ``victims`` names its search for victims."""

    def __init__(
        self, policy: Policy, seed: int, log: LineSink | None = None, victims: str = BY_QUEUES
    ) -> None:
        self.engine = Engine(policy, seed=seed, victims=find_search(victims))
        self.decision_s = 0.0
        self._log = log
        if log is not None:
            log.write(header_line(__version__, policy.name, seed, victims))

    def set_up(self, nodes: list[Node], workload: tuple[tuple[Shape, int], ...]) -> None:
        """Build the fleet, ranked in the order given; tell the policy its target if it needs one."""
        events: list[Event] = [NodeSet(node) for node in nodes]
        if self.engine.state.policy.policy.needs_target:
            events.append(TargetWorkloadSet(workload))
        self.step(0, events)
        # To build the fleet is no decision.
        self.decision_s = 0.0

    def step(self, at_us: int, events: Sequence[Event]) -> list[AnyInstruction]:
        """One step. All events are those of the replay itself, so the engine must take each of them."""
        started = time.perf_counter()
        instructions = self.engine.step(at_us, events)
        self.decision_s += time.perf_counter() - started
        if self._log is not None:
            self._log.write(step_line(at_us, tuple(events), instructions))
        for one in instructions:
            if isinstance(one, Rejected):
                raise BrokenInvariantError(f"the engine takes no {one.subject} of a replay: {one.problem}")
        return instructions

    def learns_first(self, events: Sequence[Event]) -> bool:
        """True if the policy should learn from these events before it decides anything."""
        return self.engine.learns_first(events)

    def study(self) -> ValuationLearned:
        """What the policy learns from the arrivals so far."""
        started = time.perf_counter()
        valuation = self.engine.study()
        self.decision_s += time.perf_counter() - started
        return valuation
