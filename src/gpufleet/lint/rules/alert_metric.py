"""GPU054: an alert, a recording rule or a panel looks at a metric of DCGM that exporters do not serve."""

import re
from collections.abc import Iterator

from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.dcgm_fields import FIELD, NO_FIELD, SERVED
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.queries import RULE_KINDS, Query, may_have_queries, queries_of, rules_of
from gpufleet.lint.rule import Rule, RuleFinding, Severity, Unjudged

# Exporters serve DCGM's fields in capitals. What an exporter tells of itself is no field of DCGM.
_LOWER = re.compile(r"(?<![\w:])dcgm_(?!exporter)\w+(?![\w:])")
_DEVICE = "DCGM_FI_DEV_"
_TOTAL = f"({_DEVICE}FB_USED + {_DEVICE}FB_FREE)"

# The first word that is part of a name decides; the unit of what is served stands behind it.
_SERVED = (
    ("fb_used", f"{_DEVICE}FB_USED, in MiB"),
    ("fb_free", f"{_DEVICE}FB_FREE, in MiB"),
    ("fb_total", f"{_TOTAL}, in MiB"),
    ("memory_used", f"{_DEVICE}FB_USED, in MiB"),
    ("memory_free", f"{_DEVICE}FB_FREE, in MiB"),
    ("memory_total", f"{_TOTAL}, in MiB"),
    ("memory_util", f"{_DEVICE}MEM_COPY_UTIL, in percent"),
    ("mem_copy", f"{_DEVICE}MEM_COPY_UTIL, in percent"),
    ("memory_clock", f"{_DEVICE}MEM_CLOCK, in MHz"),
    ("memory_temp", f"{_DEVICE}MEMORY_TEMP, in degrees Celsius"),
    ("gpu_util", f"{_DEVICE}GPU_UTIL, in percent"),
    ("power", f"{_DEVICE}POWER_USAGE, in watts"),
    ("energy", f"{_DEVICE}TOTAL_ENERGY_CONSUMPTION, in mJ"),
    ("temp", f"{_DEVICE}GPU_TEMP, in degrees Celsius"),
    ("clock", f"{_DEVICE}SM_CLOCK, in MHz"),
    ("xid", f"{_DEVICE}XID_ERRORS, the number of the last one"),
    ("ecc_dbe", f"{_DEVICE}ECC_DBE_VOL_TOTAL"),
    ("tensor", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE, from 0 to 1"),
)


def check(manifest: Manifest, context: Context) -> Iterator[RuleFinding | Unjudged]:
    """Each query with such a name that no recording rule of the run makes."""
    made = {
        rule.at("record").text for one in (manifest, *context.of_kind(*RULE_KINDS)) for rule in rules_of(one)
    }
    told: set[tuple[str, str]] = set()
    for query in queries_of(manifest):
        names = [one for one in dict.fromkeys(_NAME.findall(query.plain)) if one not in made]
        for name in names:
            if (query.title, name) not in told:
                told.add((query.title, name))
                yield from _of_name(query, name)


def _of_name(query: Query, name: str) -> Iterator[RuleFinding | Unjudged]:
    if FIELD.fullmatch(name) is None:
        yield RuleFinding(query.field, f"{query.title} looks at {name}, {_OLD}", _advice(name))
    elif NO_FIELD.fullmatch(name):
        yield RuleFinding(
            query.field, f"{query.title} looks at {name}, which is no field of DCGM", _advice(name)
        )
    elif name not in SERVED:
        yield Unjudged(query.field, _FILE_NEEDED)


_NAME = re.compile(f"{_LOWER.pattern}|{FIELD.pattern}")
_OLD = "which exporters of GPUs do not serve unless a file of counters asks for it"
_FILE_NEEDED = "the exporter's file of counters: without one it does not serve all fields that are looked at"


def _advice(name: str) -> str:
    meant = name.lower().replace("_mem_", "_memory_")
    served = next((right for part, right in _SERVED if part in name or part in meant), "")
    return f"look at {served}" if served else f"look at one of DCGM's fields ({_DEVICE}...)"


RULE = Rule(
    "GPU054", "Alert on a metric that is not served", Severity.WARNING, check, concerns=may_have_queries
)
