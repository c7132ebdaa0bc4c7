"""Labelled traces of work with GPUs: what is measured each minute, and whether the work is needed then.

They are made, since no public trace tells of a GPU's use, its processor's, its network's and a person's
intention together. Each class is a way of working with lengths drawn from a seed; labels come from what the
class does and never from what is measured. Hard cases are in it on purpose: pauses for thought, waits for
other programs, checkpoints, loads over the network, servers with few requests, programs that hang while they
compute, samples that are lost for a minute or for hours. ``bench.idle_work`` parks by them.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gpufleet.operator.parking.activity import Signal

DAY_MINUTES = 1440
GIB = 2.0**30
SAMPLE_LOST = 0.004
"""The chance of a minute without a sample: some scrapes a day come too late."""

COUNTERS = frozenset({Signal.CPU, Signal.NETWORK, Signal.REQUESTS})
"""Signals that Prometheus makes of counters, which go on while no sample is taken."""

OUTAGES_A_DAY = 0.3
"""How often nothing is measured for a while: an agent or Prometheus is restarted or down."""


@dataclass
class Trace:
    """One workload: its GPUs, a value of each signal a minute (None: not known), and when it is needed.

    ``is_notebook``: a person works in it, and comes back to it; other work runs by itself.
    """

    name: str
    gpus: int
    is_notebook: bool = False
    values: dict[Signal, list[float | None]] = field(default_factory=lambda: {one: [] for one in Signal})
    needed: list[bool] = field(default_factory=list)

    @property
    def minutes(self) -> int:
        """How long it is."""
        return len(self.needed)


class Writer:
    """Writes the minutes of a trace one after the other, until its days are over."""

    def __init__(self, name: str, gpus: int, days: int, chance: random.Random) -> None:
        self.trace = Trace(name, gpus)
        self.chance = chance
        self._end = days * DAY_MINUTES
        self._memory = 0.0

    @property
    def minute_of_day(self) -> int:
        """The minute of the day that is written next."""
        return self.trace.minutes % DAY_MINUTES

    @property
    def is_over(self) -> bool:
        """Whether the trace has all of its days."""
        return self.trace.minutes >= self._end

    def spend(
        self,
        minutes: float,
        *,
        needed: bool,
        gpu: tuple[float, float] = (0.0, 0.0),
        cpu: tuple[float, float] = (0.004, 0.04),
        network: tuple[float, float] = (60.0, 900.0),
        requests: float | None = None,
        memory: float | None = None,
    ) -> None:
        """So many minutes with values between these bounds; ``memory`` is what is held at their end."""
        count = max(1, round(minutes))
        step = 0.0 if memory is None else (memory - self._memory) / count
        for _ in range(count):
            if self.is_over:
                return
            self._memory += step
            draw = self.chance.uniform
            for signal, value in (
                (Signal.GPU, draw(*gpu)),
                (Signal.GPU_MEMORY, self._memory),
                (Signal.CPU, draw(*cpu)),
                (Signal.NETWORK, draw(*network)),
                (Signal.REQUESTS, requests),
            ):
                self.trace.values[signal].append(value)
            self.trace.needed.append(needed)

    def rest(self, minutes: float, *, held: float | None = None) -> None:
        """Nothing needs it."""
        self.spend(minutes, needed=False, memory=held)

    def load(self, gibibytes: float) -> None:
        """A model comes over the network, then into the card; no GPU computes."""
        minutes = 1 + gibibytes / self.chance.uniform(4, 12)
        self.spend(minutes, needed=True, cpu=(0.2, 1.5), network=(2e7, 4e8))
        self.spend(1 + gibibytes / 30, needed=True, cpu=(0.5, 1.2), memory=gibibytes * GIB)


def notebook(writer: Writer) -> None:
    """A person works by day with pauses for thought, goes to lunch, and leaves it overnight."""
    chance = writer.chance
    while not writer.is_over:
        begins = chance.gauss(9.3 * 60, 40)
        wait = (begins - writer.minute_of_day) % DAY_MINUTES
        writer.rest(wait)
        if chance.random() < 0.25:
            # Another project, a holiday, a day of meetings.
            writer.rest(chance.uniform(10, 22) * 60)
            continue
        writer.load(chance.uniform(1, 20))
        ends = writer.trace.minutes + chance.uniform(3, 9) * 60
        while writer.trace.minutes < ends and not writer.is_over:
            writer.spend(
                chance.expovariate(1 / 7), needed=True, gpu=(0.05, 1.0), cpu=(0.3, 2.0), network=(1e3, 5e4)
            )
            writer.spend(min(chance.expovariate(1 / 6), 60), needed=True, network=(200.0, 1800.0))
            if chance.random() < 0.03:
                writer.rest(chance.uniform(30, 90))
            if chance.random() < 0.01:
                # Tables are joined by the processor, for hours.
                writer.spend(chance.uniform(60, 240), needed=True, cpu=(0.5, 1.1))
        if chance.random() < 0.1:
            # Data for the next day comes overnight.
            writer.spend(chance.uniform(120, 480), needed=True, cpu=(0.05, 0.3), network=(1e6, 5e7))


def abandoned(writer: Writer) -> None:
    """A notebook that was used once, and holds its GPU since."""
    writer.load(writer.chance.uniform(2, 40))
    writer.spend(writer.chance.uniform(20, 200), needed=True, gpu=(0.1, 0.9), cpu=(0.3, 1.5))
    while not writer.is_over:
        writer.rest(DAY_MINUTES)


def training(writer: Writer) -> None:
    """A training with data that stalls, validations and checkpoints; it ends, and its pod stays."""
    chance = writer.chance
    while not writer.is_over:
        if chance.random() < 0.4:
            writer.spend(chance.uniform(60, 300), needed=True, cpu=(1.0, 12.0))
        writer.load(chance.uniform(10, 70))
        ends = writer.trace.minutes + chance.uniform(0.4, 2.5) * DAY_MINUTES
        while writer.trace.minutes < ends and not writer.is_over:
            writer.spend(chance.uniform(20, 120), needed=True, gpu=(0.6, 1.0), cpu=(1.0, 8.0))
            kind = chance.random()
            if kind < 0.5:
                writer.spend(chance.uniform(1, 25), needed=True, cpu=(0.3, 1.1))
            elif kind < 0.8:
                writer.spend(chance.uniform(1, 40), needed=True, cpu=(2.0, 16.0), network=(1e5, 1e8))
            else:
                writer.spend(chance.uniform(2, 15), needed=True, gpu=(0.03, 0.3), cpu=(0.5, 2.0))
        if chance.random() < 0.4:
            # What was learned is sent away; answers to it are all that is received.
            writer.spend(chance.uniform(30, 200), needed=True, cpu=(0.15, 0.6), network=(1e4, 5e5))
        writer.rest(chance.uniform(0.3, 1.5) * DAY_MINUTES)


def server(writer: Writer) -> None:
    """A model server with requests by day and few at night; some tell how many they answered."""
    chance = writer.chance
    tells = chance.random() < 0.7
    writer.load(chance.uniform(10, 140))
    while not writer.is_over:
        busy = 8 * 60 < writer.minute_of_day < 20 * 60
        gap = chance.expovariate(1 / 4) if busy else chance.expovariate(1 / 150)
        none = 0.0 if tells else None
        # Between requests that follow within two hours it is in use.
        writer.spend(gap, needed=gap < 120, requests=none, network=(60.0, 300.0))
        # A short request falls between two samples of the GPU now and then, but never past the network.
        seen = (0.04, 0.7) if chance.random() < 0.8 else (0.0, 0.0)
        writer.spend(1, needed=True, gpu=seen, network=(3e3, 5e4), requests=1.0 if tells else None)


def waiting_program(writer: Writer) -> None:
    """A search that waits for results of other programs between its trials, and asks for them rarely."""
    chance = writer.chance
    while not writer.is_over:
        for _ in range(chance.randint(10, 40)):
            writer.spend(chance.uniform(3, 30), needed=True, gpu=(0.2, 1.0), cpu=(0.5, 3.0))
            writer.spend(chance.expovariate(1 / 12), needed=True, network=(60.0, 500.0))
        writer.rest(chance.uniform(4, 16) * 60)


def simulation(writer: Writer) -> None:
    """Reinforcement learning: processors simulate, and the GPU computes a little now and then."""
    chance = writer.chance
    while not writer.is_over:
        writer.spend(chance.uniform(4, 20) * 60, needed=True, gpu=(0.0, 0.06), cpu=(2.0, 12.0))
        writer.rest(chance.uniform(5, 20) * 60)


def hanging(writer: Writer) -> None:
    """A program that works, and then hangs: sometimes it computes on, and no measurement tells that."""
    chance = writer.chance
    while not writer.is_over:
        writer.load(chance.uniform(5, 60))
        writer.spend(chance.uniform(2, 10) * 60, needed=True, gpu=(0.5, 1.0), cpu=(1.0, 4.0))
        length = chance.uniform(3, 14) * 60
        if chance.random() < 0.3:
            writer.spend(length, needed=False, gpu=(0.99, 1.0), cpu=(1.0, 1.1))
        else:
            writer.rest(length)


CLASSES: tuple[tuple[Callable[[Writer], None], int, tuple[int, ...]], ...] = (
    (notebook, 45, (1, 1, 1, 2)),
    (abandoned, 10, (1, 1, 2)),
    (training, 12, (1, 4, 8)),
    (server, 13, (1, 2, 4)),
    (waiting_program, 8, (1, 2)),
    (simulation, 6, (1,)),
    (hanging, 6, (1, 4)),
)
"""How work is made, how often of a hundred, and how many GPUs it has."""


NOTEBOOKS = (notebook, abandoned)


def traces(count: int, days: int, seed: int) -> Iterator[Trace]:
    """So many workloads, each of so many days."""
    weights = [weight for _, weight, _ in CLASSES]
    for number in range(count):
        chance = random.Random(f"{seed} {number}")
        make, _, gpus = chance.choices(CLASSES, weights)[0]
        writer = Writer(f"{make.__name__}-{number}", chance.choice(gpus), days, chance)
        writer.trace.is_notebook = make in NOTEBOOKS
        make(writer)
        _lose_samples(writer.trace, days, chance)
        yield writer.trace


def _lose_samples(trace: Trace, days: int, chance: random.Random) -> None:
    lost = {minute for minute in range(trace.minutes) if chance.random() < SAMPLE_LOST}
    for _ in range(days):
        if chance.random() < OUTAGES_A_DAY:
            begins = chance.randrange(trace.minutes)
            lost.update(range(begins, min(trace.minutes, begins + round(chance.expovariate(1 / 20)))))
    for minute in sorted(lost):
        for signal, values in trace.values.items():
            told, after = values[minute], minute + 1
            values[minute] = None
            # A counter tells what came in a lost minute with its next sample.
            if signal in COUNTERS and after < trace.minutes and minute - 1 not in lost and after not in lost:
                values[after] = _larger(values[after], told)


def _larger(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else max(one, other)
