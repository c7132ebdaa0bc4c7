"""What a pod that asks for a GPU is given, each addition by its name: the data of policies and webhook alike.

``admission.cel.completion`` makes expressions of these names and amounts, ``completing`` does the same in
Python. A pod asks for a GPU by resources of its containers or by a share in its annotations or labels.
Resource claims alone do not count: they may be for any kind of device, so such a pod goes to the scheduler
that it names. Nor do resources of GPUs that the scheduler does not serve, such as NVIDIA's vGPUs: only
another scheduler may place such a pod.
"""

import enum
import re
from collections.abc import Iterable

import msgspec

from gpufleet.kube import keys
from gpufleet.model.label_syntax import is_label_key
from gpufleet.model.model_errors import InputError
from gpufleet.model.resource_names import GPU_RESOURCES, NVIDIA_SHARED, is_mig_instance

SERVED = (*GPU_RESOURCES, NVIDIA_SHARED, keys.GPU_SHARE, keys.VOLCANO_NUMBER)
"""Resources by which a pod asks for a GPU that gpufleet schedules, beside instances of MIG."""

DEFAULT_SCHEDULER = "default-scheduler"
"""What the API server writes where a pod names no scheduler."""

OUR_SHARES = (keys.GPU_FRACTION, keys.GPU_MEMORY)
"""Read from annotations and from labels of a pod."""

OTHER_SHARES = (keys.KAI_FRACTION, keys.KAI_MEMORY)
"""Read from annotations alone, as KAI does."""

HAMI = (keys.HAMI_MEMORY, keys.HAMI_MEMORY_PERCENT, keys.HAMI_CORES)
"""Beside whole GPUs they say which part of each is meant."""

SLOT_COUNT = re.compile("[1-9][0-9]{0,5}")
"""What KAI's number of devices may say; longer than any pod has."""

TAINT_EFFECT = "NoSchedule"
"""Pools of GPUs keep other work away by it; a taint that ends work is tolerated by no addition."""


def is_served(name: str) -> bool:
    """Whether a resource of this name is a GPU that gpufleet schedules."""
    return name in SERVED or is_mig_instance(name)


class Addition(enum.Enum):
    """One addition, by the name that values and options have for it."""

    SHARE_SLOT = "share-slot"
    HAMI_SLOTS = "hami-slots"
    VOLCANO_SLOTS = "volcano-slots"
    SCHEDULER_NAME = "scheduler-name"
    SHARED_TOLERATION = "shared-toleration"
    POOL_TOLERATIONS = "pool-tolerations"
    RUNTIME_CLASS = "runtime-class"
    SHARED_MEMORY = "shared-memory"


WITHOUT_SETTINGS = (
    Addition.SHARE_SLOT,
    Addition.HAMI_SLOTS,
    Addition.VOLCANO_SLOTS,
    Addition.SCHEDULER_NAME,
    Addition.SHARED_TOLERATION,
)
"""Additions that every installation has unless it leaves them out."""

CHOSEN = (Addition.POOL_TOLERATIONS, Addition.RUNTIME_CLASS, Addition.SHARED_MEMORY)
"""Additions that an installation has where its settings ask for them."""


class RuntimeClass(msgspec.Struct, frozen=True):
    """A RuntimeClass of the cluster.

    One with overhead is given to no pod, nor one whose nodes the pod's selector excludes: the API server
    compares both with what the pod says, and would refuse it.
    """

    name: str
    has_overhead: bool = False
    node_selector: dict[str, str] = {}


class Completion(msgspec.Struct, frozen=True):
    """Which additions are made, with what they need.

    ``pool_taints`` are keys of taints on GPU nodes. ``runtime_class`` is None where containers get their
    GPUs without one, and where the cluster does not have it.
    """

    scheduler_name: str = keys.SCHEDULER_NAME
    left_out: frozenset[Addition] = frozenset()
    pool_taints: tuple[str, ...] = ()
    runtime_class: RuntimeClass | None = None
    shared_memory: bool = False

    def makes(self, addition: Addition) -> bool:
        """Whether this addition is made."""
        is_chosen = {
            Addition.POOL_TOLERATIONS: bool(self.pool_taints),
            Addition.RUNTIME_CLASS: self.runtime_class is not None,
            Addition.SHARED_MEMORY: self.shared_memory,
        }
        return addition not in self.left_out and is_chosen.get(addition, True)


def completion_of(
    scheduler_name: str,
    left_out: Iterable[str],
    pool_taints: Iterable[str],
    runtime_class: RuntimeClass | None,
    *,
    shared_memory: bool,
) -> Completion:
    """The completion that options ask for. Raises InputError for a key that no taint can have."""
    taints = tuple(dict.fromkeys(pool_taints))
    for one in taints:
        if not is_label_key(one):
            expected = "a key as nodes have it, such as nvidia.com/gpu"
            raise InputError("no key of a taint", field="--pool-taint", value=one, expected=expected)
    additions = frozenset(map(Addition, left_out))
    return Completion(scheduler_name, additions, taints, runtime_class, shared_memory)
