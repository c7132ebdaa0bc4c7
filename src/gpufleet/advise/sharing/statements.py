"""What a user states of workloads and no measurement tells: their kind, and whether they must stay isolated.

A Prometheus server knows neither, and a table may lack both. Workloads are named by patterns as of file
names, over namespace and name.
"""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

import msgspec

from gpufleet.advise.sharing.workload import title_of
from gpufleet.model.model_errors import InputError
from gpufleet.usage.samples import Sample, SampleKind, read_kind


class Statement(msgspec.Struct, frozen=True):
    """What a user says of the workloads that ``pattern`` names: their kind, or, with None, that they stay
    isolated.
    """

    pattern: str
    kind: SampleKind | None = None

    @property
    def option(self) -> str:
        """The command's option that said it."""
        return "--isolate" if self.kind is None else "--kind"


def read_statement(text: str) -> Statement:
    """A kind as people write it, such as ``lab/*=notebook``; raises InputError for anything else."""
    pattern, _, kind = text.rpartition("=")
    if not pattern:
        expected = "WORKLOAD=KIND such as lab/*=notebook"
        raise InputError("names no workload", field="--kind", value=text, expected=expected)
    return Statement(pattern, read_kind(kind, "--kind"))


def stated(samples: Iterable[Sample], statements: Sequence[Statement]) -> list[Sample]:
    """The samples as they are after all statements, of which a later one counts before an earlier one.

    Raises InputError for a pattern that names no workload, because it is probably misspelt.
    """
    by_title: dict[str, list[Sample]] = {}
    for sample in samples:
        by_title.setdefault(title_of(sample), []).append(sample)
    for one in statements:
        named = [title for title in by_title if fnmatchcase(title, one.pattern)]
        if not named:
            expected = f"one of {', '.join(sorted(by_title)[:5])}" + (" ..." if len(by_title) > 5 else "")
            raise InputError(
                "no workload of this name", field=one.option, value=one.pattern, expected=expected
            )
        for title in named:
            by_title[title] = [_changed(sample, one) for sample in by_title[title]]
    return [sample for found in by_title.values() for sample in found]


def _changed(sample: Sample, statement: Statement) -> Sample:
    if statement.kind is None:
        return msgspec.structs.replace(sample, strict=True)
    return msgspec.structs.replace(sample, kind=statement.kind)
