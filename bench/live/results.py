"""From the raw rounds to figures: medians, ratios, what was asked for, and the noise beside them."""

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import msgspec

from bench.figures import Figure, figure
from bench.live.contender import GPUFLEET, KUBE
from bench.live.trials import Burst, Latency, OneWait

RATIO_LEAST = 1.2
PEAK_MIB_MOST = 400.0
GANG_WAIT_S_MOST = 5.0
REFUSAL_WAIT_S_MOST = 1.0


class Raw(msgspec.Struct):
    """Every round as it was measured."""

    bursts: list[Burst] = []
    latencies: list[Latency] = []
    waits: list[OneWait] = []
    began: list[str] = []
    """The machine as each run found it."""


def figures(raw: Raw) -> list[Figure]:
    """What is published."""
    return [
        *_bursts(raw.bursts),
        *_left(raw.bursts),
        *_memory(raw.bursts),
        *_latencies(raw.latencies),
        *_waits(raw.waits),
    ]


def notes(raw: Raw) -> list[str]:
    """Writes per pod by kind, and how far the rounds lie apart."""
    lines: list[str] = []
    for title, ours, theirs in _pairs(raw.bursts):
        for rounds in (ours, theirs):
            lines += [
                f"{title}, {one.scheduler}: {one.unbound} pods were left in a round"
                for one in rounds
                if one.unbound
            ]
            if rounds:
                rates = sorted(one.pods_per_s for one in rounds)
                spread = f"{rates[0]:.0f} to {rates[-1]:.0f} pods/s in {len(rates)} rounds"
                lines.append(f"{title}, {rounds[0].scheduler}: {spread}; {_writes(rounds[-1])}")
    return lines


def _writes(one: Burst) -> str:
    each = ", ".join(f"{count / one.pods:.3g} {kind}" for kind, count in sorted(one.writes.items()))
    return f"writes per pod: {each}"


def _pairs(bursts: Iterable[Burst]) -> list[tuple[str, list[Burst], list[Burst]]]:
    groups: dict[tuple[int, int, int], dict[str, list[Burst]]] = defaultdict(lambda: defaultdict(list))
    for one in bursts:
        groups[one.nodes, one.pods, one.gang_size][one.scheduler].append(one)
    return [
        (_title(*key), of[GPUFLEET.name], of[KUBE.name])
        for key, of in sorted(groups.items(), key=lambda item: item[0])
    ]


def _title(nodes: int, pods: int, gang_size: int) -> str:
    kind = "single" if gang_size == 1 else f"gangs of {gang_size}"
    return f"{nodes:,} nodes, {pods:,} pods, {kind}"


def _median(rounds: Sequence[Burst], of: Callable[[Burst], float]) -> float:
    return statistics.median(of(one) for one in rounds)


def _bursts(bursts: Sequence[Burst]) -> list[Figure]:
    found: list[Figure] = []
    for title, ours, theirs in _pairs(bursts):
        if not ours or not theirs:
            continue
        found += _both(title, "pods/s", ours, theirs, lambda one: one.pods_per_s, RATIO_LEAST)
        found += _both(
            f"{title}, with creation",
            "pods/s",
            ours,
            theirs,
            lambda one: one.pods / (one.create_s + one.bind_s),
            None,
        )
        each_ms = [_median(rounds, lambda one: 1000 * one.cpu_s / one.pods) for rounds in (ours, theirs)]
        found.append(figure(f"{title}: CPU per pod, gpufleet", each_ms[0], "ms", "lower"))
        found.append(figure("... kube-scheduler", each_ms[1], "ms", "lower"))
        found.append(figure("... ratio", each_ms[0] / each_ms[1], "x", "lower", 1.0))
    return found


def _left(bursts: Sequence[Burst]) -> list[Figure]:
    """A rate says nothing of pods that were never bound."""
    found: list[Figure] = []
    for name, most in ((GPUFLEET.name, 0.0), (KUBE.name, None)):
        rounds = [one for one in bursts if one.scheduler == name]
        if rounds:
            left = sum(one.unbound for one in rounds)
            words = f"pods left unbound in {len(rounds)} bursts, {name}"
            found.append(figure(words, left, "pods", "lower", most))
    return found


def _both(
    title: str,
    unit: str,
    ours: Sequence[Burst],
    theirs: Sequence[Burst],
    of: Callable[[Burst], float],
    ratio_least: float | None,
) -> list[Figure]:
    rates = _median(ours, of), _median(theirs, of)
    return [
        figure(f"{title}: gpufleet", rates[0], unit, "higher"),
        figure("... kube-scheduler", rates[1], unit, "higher"),
        # Where the other bound nothing there is no ratio; the pods it left are told below.
        *([figure("... ratio", rates[0] / rates[1], "x", "higher", ratio_least)] if rates[1] else []),
    ]


def _memory(bursts: Sequence[Burst]) -> list[Figure]:
    found: list[Figure] = []
    for title, ours, theirs in _pairs(bursts):
        for rounds, most in ((ours, PEAK_MIB_MOST), (theirs, None)):
            if rounds:
                peak_mib = max(one.peak_mib for one in rounds)
                words = f"{title}: peak memory, {rounds[0].scheduler}"
                found.append(figure(words, peak_mib, "MiB", "lower", most))
    return found


def _latencies(latencies: Sequence[Latency]) -> list[Figure]:
    found: list[Figure] = []
    p99s: dict[str, float] = {}
    for name in (GPUFLEET.name, KUBE.name):
        rounds = [one for one in latencies if one.scheduler == name]
        if rounds:
            title = f"{rounds[0].nodes:,} nodes, {rounds[0].per_s:.0f} pods/s: create to bind, {name}"
            p99s[name] = statistics.median(one.p99_ms for one in rounds)
            p50_ms = statistics.median(one.p50_ms for one in rounds)
            found.append(figure(f"{title}: p50", p50_ms, "ms", "lower"))
            found.append(figure("... p99", p99s[name], "ms", "lower"))
    if len(p99s) > 1:
        found.append(figure("... ratio of p99", p99s[GPUFLEET.name] / p99s[KUBE.name], "x", "lower", 1.0))
    return found


def _waits(waits: Sequence[OneWait]) -> list[Figure]:
    found: list[Figure] = []
    for what, nodes, name in dict.fromkeys((one.what, one.nodes, one.scheduler) for one in waits):
        most = GANG_WAIT_S_MOST if what.startswith("gang") else REFUSAL_WAIT_S_MOST
        longest_s = max(one.wait_s for one in waits if (one.what, one.scheduler) == (what, name))
        target = most if name == GPUFLEET.name else None
        found.append(figure(f"{nodes:,} nodes, {what}: {name}, longest", longest_s, "s", "lower", target))
    return found
