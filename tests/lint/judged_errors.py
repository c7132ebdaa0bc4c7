"""How often an error of lint is right, in projects on which no rule was written.

    python -m tests.lint.judged_errors

prints it by rule: round by round as the errors were first told, and what of them is an error today.
``tests/corpus/public-manifests/judged-sources.csv`` names the files, which are of other repositories than
those that the rules were tried on. ``judged-errors.csv`` has every error that lint had for them when it first
read them, once for each rule and object: right or wrong, why, and what the rule says of the object now. Files
came in rounds. After each, the rules that had been wrong were mended, so that the next one measures what no
rule has been fitted to.
"""

import csv
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from tests.lint.public_manifests import TABLE, Source, sources

FILES = TABLE.with_name("judged-sources.csv")
JUDGED = TABLE.with_name("judged-errors.csv")
RIGHT, WRONG = "right", "wrong"


@dataclass(frozen=True)
class Judgement:
    """One error as it was first told. ``now`` is the severity with which the rule finds the object today."""

    repository: str
    path: str
    rule: str
    object: str
    verdict: str
    reason: str
    now: str

    @property
    def file(self) -> str:
        """The file's path in a folder of repositories."""
        return f"{self.repository}/{self.path}"


def judgements() -> list[Judgement]:
    """Every row of the table of errors."""
    with JUDGED.open(encoding="utf-8", newline="") as file:
        return [Judgement(**row) for row in csv.DictReader(file)]


def files() -> list[Source]:
    """Every file that was read, also those without an error."""
    return sources(FILES)


def rounds() -> dict[str, int]:
    """In which round each file was first read."""
    with FILES.open(encoding="utf-8", newline="") as file:
        return {f"{row['repository']}/{row['path']}": int(row["round"]) for row in csv.DictReader(file)}


def _rows() -> list[tuple[str, list[Judgement]]]:
    judged = judgements()
    rules = sorted({one.rule for one in judged})
    return [*((rule, [one for one in judged if one.rule == rule]) for rule in rules), ("all", judged)]


def told_today() -> list[str]:
    """The second table of the page: of the errors that were judged, how many still are errors, and right."""
    errors = [(name, [one for one in chosen if one.now == "error"]) for name, chosen in _rows()]
    return [
        "| rule | right when first told | still errors, and right |",
        "| --- | --- | --- |",
        *(
            f"| {name} | {_share(chosen)} | {_share(today)} |"
            for (name, chosen), (_, today) in zip(_rows(), errors, strict=True)
        ),
    ]


def lines() -> list[str]:
    """The table of the page: how many were right of how many, for each rule and for all, round by round."""
    read = rounds()
    columns = sorted(set(read.values()))
    return [
        f"| rule | {' | '.join(f'round {number}' for number in columns)} |",
        f"| --- |{' --- |' * len(columns)}",
        *(
            f"| {name} | "
            + " | ".join(_share(one for one in chosen if read[one.file] == number) for number in columns)
            + " |"
            for name, chosen in _rows()
        ),
    ]


def _share(judged: Iterable[Judgement]) -> str:
    verdicts = [one.verdict for one in judged]
    if not verdicts:
        return "none"
    right = verdicts.count(RIGHT)
    return f"{right} of {len(verdicts)} ({right * 100 // len(verdicts)} %)"


if __name__ == "__main__":
    sys.stdout.write("\n".join([*lines(), "", *told_today()]) + "\n")
