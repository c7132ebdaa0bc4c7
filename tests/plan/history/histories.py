"""Small histories and catalogues, written as files."""

from fractions import Fraction
from pathlib import Path
from typing import Any

from gpufleet.plan.history.command import HistoryQuestion, Planned, plan_of_history
from gpufleet.plan.history.service_level import read_level
from gpufleet.plan.history.spot_choice import read_spot_question
from gpufleet.plan.instance_types import read_catalogue
from tests.replay.trace_files import NODE_HEADER, TASK_HEADER, table

TYPES = """\
instance_type,gpus,gpu_model,cpus,memory_gib,price,currency
one,1,H100-80GB,16,256,7,USD
eight,8,H100-80GB,192,2048,50,USD
small,8,L4,192,768,13,USD
"""
HOUR_S = 3600


def history(folder: Path, *rows: str, columns: str = "gpu_spec,creation_time,duration_s") -> Path:
    """A task list of these rows."""
    return table(folder, *rows, header=f"{TASK_HEADER},{columns}", name="history.csv")


def node_list(folder: Path, *rows: str, columns: str = "labels") -> Path:
    """A node list of these rows."""
    return table(folder, *rows, header=f"{NODE_HEADER},{columns}", name="there.csv")


def planned(tasks: Path, *levels: str, types: str = TYPES, **more: Any) -> Planned:
    """The plan for a task list."""
    question = HistoryQuestion(
        (tasks,),
        read_catalogue(types, "types.csv"),
        tuple(read_level(text) for text in levels),
        growth=Fraction(more.pop("growth", "1")),
        spot=read_spot_question(more.pop("checkpoints", ()), more.pop("on_demand", ())),
        **more,
    )
    return plan_of_history(question, lambda _: None)


def bought(plan: Planned) -> dict[str, int] | None:
    """How many of each type the plan buys; None where it found nothing."""
    best = plan.answer.best
    return None if best is None else {one.instance_type: one.count for one in best.nodes}
