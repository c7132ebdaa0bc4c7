"""Notebooks that hold GPUs: whether they are idle, only metrics tell."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Grade, Layer, Point, Unjudged, listed
from gpufleet.doctor.facts import Facts
from gpufleet.model.phrases import counted, verb


def judge(facts: Facts) -> Iterator[Unjudged]:
    """How many notebooks with GPUs there are, and which command can tell whether they idle."""
    found = [one for one in facts.gpu_workloads if one.manifest.kind == "Notebook"]
    if found:
        yield Unjudged(
            f"whether {counted(len(found), 'notebook')} with GPUs {verb(len(found), 'are')} idle "
            f"({listed(one.title for one in found)}):"
            " that needs metrics; gpufleet advise sharing --prometheus URL reads them"
        )


CHECK = Check(
    "notebooks-idle",
    Point.WATCHING,
    Layer.PRACTICE,
    "Notebooks do not hold idle GPUs",
    "A notebook holds its GPU through nights and weekends, until it is culled.",
    judge,
    grade=Grade.RISK,
)
