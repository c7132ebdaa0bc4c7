"""Profiles for linters that know no GPUs: which of their checks are wrong for GPU workloads, and why.

One file for each linter, in the form that it reads, beside this module. They leave out single checks and
nothing more; ``docs/lint.md`` says how each is used.
"""

from pathlib import Path

from gpufleet.model.model_errors import InputError

_FOLDER = Path(__file__).parent
FILES = {
    "kube-linter": "kube-linter.yaml",
    "kube-score": "kube-score.txt",
    "polaris": "polaris.yaml",
    "popeye": "popeye.yaml",
}


def profile(linter: str) -> str:
    """The profile for a linter. Raises InputError for one that has none."""
    if linter not in FILES:
        raise InputError("no profile for this linter", value=linter, expected=" or ".join(FILES))
    return (_FOLDER / FILES[linter]).read_text(encoding="utf-8")
