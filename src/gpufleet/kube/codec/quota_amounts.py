"""Amounts of quotas: Kubernetes quantities as people write them, whole units of ``model.queue`` inside.

    gpu: "7.5"          7500 thousandths
    gpu-memory: 80Gi    81920 MiB
    memory: 1Ti         1099511627776 bytes

As everywhere in Kubernetes, what is finer than the unit is rounded up. What is negative or absurdly large
is refused, here and by the API server.
"""

import re

from gpufleet.model import gpu_model
from gpufleet.model.identifiers import QuotaResource
from gpufleet.model.label_advice import nearest
from gpufleet.model.model_errors import InputError
from gpufleet.model.quantity import NANO_PER_MILLI, NANO_PER_UNIT, Notation, Quantity, parse_quantity
from gpufleet.model.queue import COST, CPU, GPU, GPU_MEMORY, GPU_MODEL_PREFIX, MEMORY, MIG_SLICES
from gpufleet.model.resource_names import EPHEMERAL_STORAGE, GPU_RESOURCES, is_extended, is_huge_pages

PATTERN = r"[+]?([0-9]+([.][0-9]*)?|[.][0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]+)?"
"""What the definition of FleetQueue lets in: a quantity without a minus."""

LENGTH_MAX = 32
"""The definition of FleetQueue takes no longer amount."""

UNITS_MAX = 2**56
"""64 PiB, and of everything that is not measured in bytes more than there is."""

EXPECTED = "an amount of 0 or more, such as 8, 7.5, 500m or 80Gi"
MEMORY_EXPECTED = "an amount with its unit, such as 80Gi"
NAMED = (GPU, GPU_MEMORY, MIG_SLICES, CPU, MEMORY, QuotaResource(EPHEMERAL_STORAGE), COST)
RESOURCE_EXPECTED = (
    f"{', '.join(NAMED)}, {GPU_MODEL_PREFIX}MODEL, or the name of another resource, such as example.com/fpga"
)

_AMOUNT = re.compile(PATTERN)
# GPU memory is counted in whole MiB, and less than one is a mistake.
_NANO_PER_MIB = 2**20 * NANO_PER_UNIT
_MODEL = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_. ]{0,126}[A-Za-z0-9])?")


def read_resource(text: str, field: str) -> QuotaResource:
    """The resource, a GPU's model under the name that devices have. Raises InputError for another word."""
    if text.startswith(GPU_MODEL_PREFIX):
        return QuotaResource(f"{GPU_MODEL_PREFIX}{read_model(text.removeprefix(GPU_MODEL_PREFIX), field)}")
    if text in GPU_RESOURCES:
        raise InputError("counted as gpu", field=field, value=text, expected=GPU)
    if text in NAMED or is_extended(text) or is_huge_pages(text):
        return QuotaResource(text)
    near = nearest(text, NAMED)
    expected = RESOURCE_EXPECTED if near is None else f"{near}? {RESOURCE_EXPECTED}"
    raise InputError("unknown", field=field, value=text, expected=expected)


def read_model(text: str, field: str) -> str:
    """The name of a GPU's model. What no catalogue has stays as it is; what fits several is refused."""
    if not _MODEL.fullmatch(text):
        expected = "a GPU's model, such as H100-80GB"
        raise InputError("not a model of GPU", field=field, value=text, expected=expected)
    found = gpu_model.matching(text)
    if len(found) > 1:
        expected = " or ".join(sorted(str(model.name) for model in found))
        raise InputError("several models", field=field, value=text, expected=expected)
    return str(found[0].name) if found else text


def read_amount(resource: QuotaResource, written: int | str, field: str) -> int:
    """The amount in the resource's unit, rounded up. Raises InputError for what cannot be."""
    # YAML makes a number of an amount that has no quotes.
    text = str(written)
    if len(text) > LENGTH_MAX or not _AMOUNT.fullmatch(text):
        raise InputError("not an amount", field=field, value=written, expected=EXPECTED)
    amount = parse_quantity(text, field=field)
    if resource == GPU_MEMORY and 0 < amount.nano < _NANO_PER_MIB:
        raise InputError("less than a MiB", field=field, value=written, expected=MEMORY_EXPECTED)
    units = -(-amount.nano // nano_per_unit(resource))
    if units > UNITS_MAX:
        expected = f"at most {written_amount(resource, UNITS_MAX)}"
        raise InputError("too much", field=field, value=written, expected=expected)
    return units


def written_amount(resource: QuotaResource, units: int) -> str:
    """The amount as a quantity: "7500m" of GPUs, "80Gi" of memory. ``read_amount`` reads it back exactly."""
    binary = resource in (MEMORY, GPU_MEMORY, EPHEMERAL_STORAGE)
    return str(Quantity(units * nano_per_unit(resource), Notation.BINARY if binary else Notation.DECIMAL))


def nano_per_unit(resource: QuotaResource) -> int:
    """The size of the unit in which a resource is counted inside, in thousand millionths of its own."""
    if resource in (GPU, CPU, COST) or resource.startswith(GPU_MODEL_PREFIX):
        return NANO_PER_MILLI
    return _NANO_PER_MIB if resource == GPU_MEMORY else NANO_PER_UNIT
