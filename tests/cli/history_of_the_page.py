"""Two weeks of a team's work, which the page on planning for a history replays."""

from collections.abc import Iterator

from tests.conventions.project import ROOT

FILE = ROOT / "examples" / "plan" / "two-weeks.csv"
HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,queue,gang,creation_time,duration_s"
HOUR_S, DAY_S = 3_600, 86_400
DAYS = 14
SUNDAY, SATURDAY = 6, 5


def history() -> str:
    """The file: from Monday, 2 November 2026."""
    return "\n".join([HEADER, *_rows()]) + "\n"


def _rows() -> Iterator[str]:
    yield "chat,8000,32768,1,1000,L4,serving,,0,"
    for day in range(DAYS):
        begin = day * DAY_S
        weekday = day % 7
        if weekday < SATURDAY:
            for number, name in enumerate(("ann", "bob", "eve")):
                at = begin + 8 * HOUR_S + number * 1200
                yield f"notebook-{name}-{day},4000,16384,1,500,L4,notebooks,,{at},{9 * HOUR_S}"
            for number in range(5):
                at = begin + 9 * HOUR_S + number * 900
                length_s = (3 + number % 3) * HOUR_S
                yield f"tune-{day}-{number},8000,65536,1,1000,A100-80GB,research,,{at},{length_s}"
        if weekday == SUNDAY:
            yield f"sweep-{day},8000,65536,1,1000,A100-80GB,research,,{begin + 10 * HOUR_S},{6 * HOUR_S}"
        else:
            for member in range(2):
                at = begin + 20 * HOUR_S
                asked = "64000,524288,8,1000,H100-80GB,research"
                yield f"train-{day}-{member},{asked},train-{day},{at},{7 * HOUR_S}"
