"""One measurement of one pod, and how it is read from the cells of a table.

Utilisation is kept in thousandths of a GPU, so that sums over pods are exact and compare with shares.
A fraction of a thousandth counts as a whole one: use is never made smaller than it was.
"""

import enum
import re

import msgspec

from gpufleet.model.gpu_model import find, matching, nearest_name
from gpufleet.model.model_errors import InputError

# Columns of the table; without one of the first there is no advice.
REQUIRED = ("workload", "pod", "time", "gpu_util_pct", "memory_used_mib", "gpus_requested")
OPTIONAL = ("gpu_model", "node", "kind", "isolation", "cpu_milli", "host_memory_mib", "namespace")
_DECIMAL = re.compile(r"([0-9]{1,13})(?:\.([0-9]{1,6}))?", re.ASCII)
_WHOLE = re.compile(r"[0-9]{1,12}", re.ASCII)
GPUS_MAX = 256
"""More GPUs than any node has."""

# Texts are read as whole millionths, so that nothing is rounded twice.
MILLION = 1_000_000
# Exporters give use in percent; here it is counted in thousandths.
PERCENT = 100
MILLI_OF_PERCENT = 10


class SampleKind(enum.Enum):
    """What a workload is for, in the words of the column ``kind``."""

    TRAINING = "training"
    DISTRIBUTED = "distributed-training"
    LATENCY = "inference-latency"
    INFERENCE = "inference"
    BATCH = "batch-inference"
    NOTEBOOK = "notebook"
    EXPERIMENT = "experiment"
    UNKNOWN = ""


class Sample(msgspec.Struct, frozen=True, gc=False):
    """What a pod used at a time; ``gpu_milli`` of each of its GPUs, ``memory_mib`` of the fullest one.

    ``gpu_model``, ``node`` and ``namespace`` are "" where they are not known.
    """

    workload: str
    pod: str
    at_s: int
    gpu_milli: int
    memory_mib: int
    gpus: int
    gpu_model: str = ""
    node: str = ""
    kind: SampleKind = SampleKind.UNKNOWN
    strict: bool = False
    cpu_milli: int = 0
    host_memory_mib: int = 0
    namespace: str = ""


def read_sample(cells: tuple[str, ...]) -> Sample:
    """A row's cells, in the order of ``REQUIRED`` and ``OPTIONAL``; raises InputError naming the column."""
    workload, pod, time, util, memory, gpus, model, node, kind, isolation, cpu, host, namespace = cells
    return Sample(
        _name(workload, "workload"),
        _name(pod, "pod"),
        _millionths(time, "time", "seconds such as 1763800000") // MILLION,
        _milli(util),
        _whole(memory, "memory_used_mib"),
        _gpus(gpus),
        _model(model),
        _name(node, "node") if node else "",
        read_kind(kind, "kind"),
        _strict(isolation),
        _whole(cpu, "cpu_milli") if cpu else 0,
        _whole(host, "host_memory_mib") if host else 0,
        _name(namespace, "namespace") if namespace else "",
    )


def model_of(text: str, field: str) -> str:
    """The one model of GPU that a text stands for; raises InputError otherwise."""
    found = find(text)
    if found is not None:
        return str(found.name)
    several = [str(model.name) for model in matching(text)]
    meant = nearest_name(text)
    expected = (
        f"one of {', '.join(several)}" if several else f"{meant}, perhaps" if meant else "a known model"
    )
    problem = "several models have this name" if several else "no such model of GPU"
    raise InputError(problem, field=field, value=text, expected=expected)


def read_kind(text: str, field: str) -> SampleKind:
    """The kind of this word, or none of ""; raises InputError otherwise."""
    try:
        return SampleKind(text)
    except ValueError:
        names = ", ".join(kind.value for kind in SampleKind if kind.value)
        expected = f"one of {names}, or nothing"
        raise InputError("no such kind", field=field, value=text, expected=expected) from None


def _model(cell: str) -> str:
    return model_of(cell, "gpu_model") if cell else ""


def _name(cell: str, column: str) -> str:
    if not cell or not cell.isprintable() or cell != cell.strip():
        raise InputError(
            "not a name", field=column, value=cell, expected="printable text without spaces around"
        )
    return cell


def _millionths(cell: str, column: str, expected: str) -> int:
    found = _DECIMAL.fullmatch(cell)
    if found is None:
        raise InputError("not a plain number", field=column, value=cell, expected=expected)
    return int(found[1]) * MILLION + int((found[2] or "").ljust(6, "0"))


def _milli(cell: str) -> int:
    expected = "percent of a GPU from 0 to 100"
    millionths = _millionths(cell, "gpu_util_pct", expected)
    if millionths > PERCENT * MILLION:
        raise InputError("more than a whole GPU", field="gpu_util_pct", value=cell, expected=expected)
    return -(-millionths * MILLI_OF_PERCENT // MILLION)


def _whole(cell: str, column: str) -> int:
    if _WHOLE.fullmatch(cell) is None:
        raise InputError("not a whole number", field=column, value=cell, expected="plain digits")
    return int(cell)


def _gpus(cell: str) -> int:
    count = _whole(cell, "gpus_requested")
    if not 1 <= count <= GPUS_MAX:
        raise InputError(
            "not a number of whole GPUs", field="gpus_requested", value=cell, expected=f"1 to {GPUS_MAX}"
        )
    return count


def _strict(cell: str) -> bool:
    if cell not in ("", "none", "strict"):
        raise InputError(
            "unknown isolation", field="isolation", value=cell, expected="strict, none or nothing"
        )
    return cell == "strict"
