"""From what a person asked for to the list of runs, and from the runs to the whole result.

Everything that can be wrong with the question is found here, before the first run starts: unknown
policies, seeds that are no numbers, files that cannot be read, a fleet without GPUs.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from gpufleet import __version__
from gpufleet.engine.policy import find_policy
from gpufleet.model.model_errors import InputError
from gpufleet.replay.arrivals import gpu_capacity_milli
from gpufleet.replay.results import SCHEMA, SweepResult
from gpufleet.replay.run import trace_of
from gpufleet.replay.run_request import RunRequest
from gpufleet.replay.summary import summarise
from gpufleet.replay.sweep import RunOutcome
from gpufleet.replay.trace import Trace

# A range with a digit too many is refused: it would run for weeks.
SEEDS_MAX = 10_000
# Bounds the tasks that one run draws.
LOAD_MAX = 100.0


class SweepPlan(msgspec.Struct, frozen=True):
    """A sweep that can be started: its runs, and the trace they all use."""

    requests: tuple[RunRequest, ...]
    trace: Trace
    command: str

    @property
    def replayed(self) -> Trace:
        """What arrives: the trace, or the list with the fixed order."""
        return replayed_by(self.requests[0], self.trace)


def parse_seeds(text: str) -> list[int]:
    """Seeds as people write them: "42", "42..51", "1,5,9..11"."""
    seeds: list[int] = []
    for part in text.split(","):
        first, dots, last = part.strip().partition("..")
        ends = (first, last) if dots else (first, first)
        if not all(end.isascii() and end.isdecimal() and len(end) <= 18 for end in ends):
            raise InputError("no seeds", field="--seed", value=text, expected="42, or 42..51, or 1,5,9")
        low, high = int(ends[0]), int(ends[1])
        if high < low or high - low >= SEEDS_MAX:
            raise InputError(
                "an empty or endless range of seeds",
                field="--seed",
                value=part,
                expected=f"first..last, at most {SEEDS_MAX} seeds",
            )
        seeds.extend(range(low, high + 1))
    return list(dict.fromkeys(seeds))


def parse_policies(text: str) -> list[str]:
    """Policies by name, each once."""
    names = [name.strip() for name in text.split(",")]
    return list(dict.fromkeys(find_policy(name).name for name in names))


def check_load(load: float) -> None:
    """Refuse a load that is no positive, finite number."""
    if not 0 < load <= LOAD_MAX:
        raise InputError(
            "no load to replay",
            field="--load",
            value=str(load),
            expected=f"times the GPUs of the cluster, above 0 and at most {LOAD_MAX:g}",
        )


def plan(template: RunRequest, policies: str, seeds: str, out: Path | None, command: str) -> SweepPlan:
    """Every policy on every seed; ``template`` holds what all runs share."""
    check_load(template.load)
    names, numbers = parse_policies(policies), parse_seeds(seeds)
    trace = trace_of(template.nodes_path, template.pods_path, template.skip_bad_rows_pct)
    replayed_by(template, trace)
    check_mode(template, trace)
    for option, path in (("--log", template.log_path), ("--ledger", template.ledger_path)):
        if path is not None and len(names) * len(numbers) > 1:
            raise InputError("a log is of one run", field=option, expected="one policy and one seed")
    requests = [
        msgspec.structs.replace(
            template,
            policy=name,
            seed=seed,
            picture=seed == numbers[0],
            placements_path=placements_path(out, name, seed) if seed == numbers[0] else None,
        )
        for name in names
        for seed in numbers
    ]
    return SweepPlan(tuple(requests), trace, command)


def check_mode(template: RunRequest, trace: Trace) -> None:
    """Refuse a fleet without GPUs, and a protocol that the files do not serve."""
    if gpu_capacity_milli(trace.nodes) == 0:
        raise InputError("the nodes have no GPU", field=template.nodes_path, expected="at least one GPU")
    if template.mode == "timeline" and not trace.timed:
        raise InputError(
            "no creation times",
            field=template.pods_path,
            expected="a column creation_time for --mode timeline, or --mode saturate",
        )
    if template.ledger_path is not None and template.mode != "timeline":
        raise InputError("a saturated fleet has no times", field="--ledger", expected="--mode timeline")
    if template.arrivals_path is not None and template.mode == "timeline":
        raise InputError("a fixed order has no times", field="--arrivals", expected="--mode saturate")


def replayed_by(request: RunRequest, trace: Trace) -> Trace:
    """What arrives in these runs: the trace, or the list with the fixed order."""
    if request.arrivals_path is None:
        return trace
    return trace_of(request.nodes_path, request.arrivals_path, request.skip_bad_rows_pct)


def placements_path(out: Path | None, policy: str, seed: int) -> str | None:
    """Where the placements of a run go."""
    return None if out is None else str(out / f"placements-{policy}-{seed}.csv")


def whole_result(planned: SweepPlan, outcome: RunOutcome) -> SweepResult:
    """The result of a sweep, finished or not."""
    request, trace = planned.requests[0], planned.replayed
    fixed = request.arrivals_path is not None
    runs = outcome.runs()
    return SweepResult(
        schema=SCHEMA,
        gpufleet_version=__version__,
        command=planned.command,
        mode=request.mode,
        nodes_file=Path(request.nodes_path).name,
        pods_file=Path(request.arrivals_path or request.pods_path).name,
        nodes=len(trace.nodes),
        gpus=sum(len(node.devices) for node in trace.nodes),
        tasks=len(trace.tasks),
        load=request.load,
        complete=not outcome.missing(),
        missing=outcome.missing(),
        skipped_rows=list(dict.fromkeys(planned.trace.skipped + trace.skipped)),
        runs=runs,
        policies=summarise(runs),
        order=order_of(request),
        target_file=Path(request.pods_path).name if fixed else None,
    )


def order_of(request: RunRequest) -> str:
    """The order of arrivals in a word."""
    if request.mode == "timeline":
        return "recorded"
    if request.arrivals_path is not None:
        return "fixed"
    return "submitted" if request.submitted_order else "shuffled"


def titles(requests: Sequence[RunRequest]) -> str:
    """How many runs of what, for a progress line."""
    policies = dict.fromkeys(request.policy for request in requests)
    return f"{len(requests)} runs of {', '.join(policies)}" if len(requests) > 1 else requests[0].title
