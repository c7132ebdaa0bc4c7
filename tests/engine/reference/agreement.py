"""In which stories the engine and the reference are held against each other, and what is no agreement."""

from tests.engine.no_trace import no_trace
from tests.engine.reference.drive import SideBySide
from tests.engine.reference.judgement import Disagreement
from tests.engine.reference.story import (
    ELASTIC,
    EVERYTHING,
    RACKS,
    SLOW_ENDS,
    STRANGERS,
    WITH_ALL_FEATURES,
    Mix,
    Plan,
    random_plan,
)

MIXES: dict[str, Mix] = {
    "usual": EVERYTHING,
    "elastic": ELASTIC,
    "strangers": STRANGERS,
    "racks": RACKS,
    "slow": SLOW_ENDS,
    "all": WITH_ALL_FEATURES,
}
"""What may occur in stories, by a short name."""


COMPARED_EVERY = 101
"""Of so many trials and searches one is watched for traces: some in every story."""


def unexplained(plan: Plan) -> list[Disagreement]:
    """What the two do not agree in."""
    return SideBySide(plan).run().found


def disagreeing(seeds: range, mix: Mix) -> dict[int, list[Disagreement]]:
    """The same of many random stories, by seed; those in which they agree are left out."""
    with no_trace(COMPARED_EVERY):
        found = {seed: unexplained(random_plan(seed, mix)) for seed in seeds}
    return {seed: some for seed, some in found.items() if some}
