"""GPU058: an alert compares a counter as it stands, which only grows."""

import re
from collections.abc import Iterator

from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.queries import may_have_queries, queries_of
from gpufleet.lint.rule import Rule, RuleFinding, Severity

_COUNTER = re.compile(
    r"(?<![\w:])(DCGM_FI_DEV_(?:PCIE_REPLAY_COUNTER|TOTAL_ENERGY_CONSUMPTION|ECC_SBE_(?:VOL|AGG)_TOTAL"
    r"|(?:POWER|THERMAL|SYNC_BOOST|BOARD_LIMIT|LOW_UTIL|RELIABILITY)_VIOLATION"
    r"|NVLINK_(?:CRC_FLIT|CRC_DATA|REPLAY|RECOVERY)_ERROR_COUNT_TOTAL)|(?:vllm:|nv_|gpufleet_)\w+_total)(?![\w:])"
)
"""Counters of GPUs and of servers of models. Of errors that no card comes back from, each one is an alert."""
_AFTER = re.compile(r"\s*(\{[^{}]*\})?\s*(\[|offset\b|@)")
"""A range, or an older value to compare with."""
_COMPARES = re.compile(r"[<>]|[!=]=")


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding]:
    """Each alert that compares such a counter, and no rate or increase of it."""
    for query in queries_of(manifest):
        # A subquery makes a range of anything: what is counted then is not told by one name.
        if not query.is_alert or not _COMPARES.search(query.plain) or re.search(r"\[[^\]]*:", query.plain):
            continue
        for found in _COUNTER.finditer(query.plain):
            if not _AFTER.match(query.plain, found.end()) and "offset" not in query.plain:
                says = (
                    f"{query.title} compares {found[1]} as it stands: it only grows until its program ends,"
                )
                says += " so the alert stays once it has come"
                yield RuleFinding(query.field, says, f"compare increase({found[1]}[15m]), or its rate")
                break


RULE = Rule("GPU058", "Alert on a counter", Severity.WARNING, check, concerns=may_have_queries)
