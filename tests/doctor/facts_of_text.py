"""What is known of a cluster, written as YAML: for checks and reports that need no server."""

import datetime as dt
from collections.abc import Mapping

from gpufleet.doctor.facts import Facts
from gpufleet.lint.run import read
from gpufleet.lint.source.text import SourceText

NOW = dt.datetime(2026, 11, 22, 12, 0, tzinfo=dt.UTC)


def facts_of(
    text: str,
    *,
    refused: Mapping[str, str] | None = None,
    metrics: Mapping[str, frozenset[str] | None] | None = None,
) -> Facts:
    """The facts; every kind counts as listed but those that were refused."""
    reading = read(SourceText("cluster", text))
    assert not reading.problems
    kinds = {one.kind for one in reading.manifests} | {"Node", "Pod", "RuntimeClass", "ResourceQuota"}
    refused = refused or {}
    listed = frozenset(kinds - refused.keys())
    return Facts(reading.manifests, NOW, "v1.37.0", listed, refused, metrics or {})
