"""Finds the production trace that comes with gpufleet.

It travels inside the package where gpufleet is installed, and lies beside the sources where it
is worked on, so it is never copied by hand. ``trace`` reads what is found.
"""

import importlib.resources
from pathlib import Path

from gpufleet.model.model_errors import InputError
from gpufleet.replay.replay_errors import ShippedTraceError

FOLDER = "data/openb"
TASK_LIST_NAMES = ("default", "gpushare40", "multigpu20")


def shipped_node_list() -> Path:
    """The 1,213 GPU nodes of the public openb trace."""
    return _shipped("openb_node_list_gpu_node.csv")


def shipped_task_list(name: str = "default") -> Path:
    """The task list of this name, one of ``TASK_LIST_NAMES``."""
    if name not in TASK_LIST_NAMES:
        raise InputError("no such task list", field="name", value=name, expected=", ".join(TASK_LIST_NAMES))
    return _shipped(f"openb_pod_list_{name}.csv")


def _shipped(file: str) -> Path:
    package = Path(str(importlib.resources.files("gpufleet")))
    for folder in (package / FOLDER, package.parent.parent / FOLDER):
        if (folder / file).is_file():
            return folder / file
    raise ShippedTraceError(
        f"{file} is missing from this installation of gpufleet; "
        "install it again, or name your own node and task lists"
    )
