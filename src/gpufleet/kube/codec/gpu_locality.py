"""How near to each other a pod wants its GPUs, from our annotation and Volcano's.

``gpufleet.io/gpus-within: link-group`` takes all of them from one group of fast links, ``numa-node`` from one
NUMA node, or waits. Volcano's ``volcano.sh/numa-topology-policy: single-numa-node`` says the latter; its
other policies ask for what every pod of several GPUs gets anyway: as near as can be. A single GPU is near
itself.
"""

from collections.abc import Mapping

from gpufleet.kube import keys
from gpufleet.model.model_errors import InputError
from gpufleet.model.shape import GpuRequest, Within

# The values of our annotation, and of Volcano's; all but one of Volcano's policies ask for nothing strict.
WORDS = {"node": Within.NODE, "numa-node": Within.NUMA_NODE, "link-group": Within.LINK_GROUP}
VOLCANO_WORDS = {
    "none": Within.NODE,
    "best-effort": Within.NODE,
    "restricted": Within.NODE,
    "single-numa-node": Within.NUMA_NODE,
}


def near_each_other(annotations: Mapping[str, str], gpu: GpuRequest) -> Within:
    """How near the GPUs of this request must be; ours goes before Volcano's.

    Raises InputError for what cannot be understood, or is no wish for whole GPUs.
    """
    ours, volcanos = annotations.get(keys.GPUS_WITHIN), annotations.get(keys.VOLCANO_NUMA_POLICY)
    if ours is None:
        within = _read(volcanos, keys.VOLCANO_NUMA_POLICY, VOLCANO_WORDS)
        return within if gpu.whole and gpu.count > 1 else Within.NODE
    within = _read(ours, keys.GPUS_WITHIN, WORDS)
    if within is not Within.NODE and not gpu.whole:
        field = f"metadata.annotations[{keys.GPUS_WITHIN}]"
        problem = "no whole GPUs are asked for"
        raise InputError(problem, field=field, value=ours, expected="whole GPUs, or no such annotation")
    return within if gpu.count > 1 else Within.NODE


def _read(text: str | None, key: str, words: Mapping[str, Within]) -> Within:
    if text is None:
        return Within.NODE
    if text not in words:
        field = f"metadata.annotations[{key}]"
        raise InputError("no such place", field=field, value=text, expected=", ".join(words))
    return words[text]
