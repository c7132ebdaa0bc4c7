"""Questions to the allocator: random ones by seed, and those that Kubernetes' own tests ask.

``published_questions.jsonl.gz`` holds the inputs of the test table of Kubernetes' module
``dynamic-resource-allocation`` (Apache License 2.0, The Kubernetes Authors). The answers of its allocator to
all questions are in ``reference_answers.jsonl.gz``, those to the published ones first.
"""

import functools
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from gpufleet.device_selectors.selector import Features
from gpufleet.dra_allocation.allocation_errors import ClaimError
from gpufleet.dra_allocation.allocator import Allocator
from gpufleet.dra_allocation.claims import ResourceClaim
from gpufleet.dra_allocation.held import HeldDevices
from gpufleet.dra_allocation.pools import SliceIndex
from gpufleet.dra_allocation.preference import CandidateOrder, first_fit
from gpufleet.dra_allocation.results import Allocation, Refusal
from gpufleet.dra_allocation.slices import NodeFacts
from gpufleet.kube.codec.resource_claims import read_allocation, read_resource_claim, write_allocation
from gpufleet.kube.codec.resource_slices import read_device_class, read_resource_slice
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.objects.resource_claims import ResourceClaimObject
from gpufleet.kube.objects.resource_slices import DeviceClassObject, ResourceSliceObject
from tests.dra_allocation.random_questions import random_question

HERE = Path(__file__).parent
PUBLISHED = HERE / "published_questions.jsonl.gz"
ANSWERS = HERE / "reference_answers.jsonl.gz"
RANDOM_COUNT = 10_000
"""Random questions: enough that every rule meets every other."""

Written = dict[str, Any]
Object = TypeVar("Object")


def published_questions() -> list[Written]:
    """The inputs of Kubernetes' own test table."""
    return [json.loads(line) for line in gzip.decompress(PUBLISHED.read_bytes()).splitlines()]


def random_questions(part: range = range(RANDOM_COUNT)) -> Iterator[Written]:
    """Random fleets, made anew."""
    return (random_question(seed) for seed in part)


@functools.cache
def reference_answers() -> list[str]:
    """The answers of Kubernetes' allocator to published and then to random questions, each as JSON."""
    return gzip.decompress(ANSWERS.read_bytes()).decode().splitlines()


def normal(results: list[Written]) -> list[Written]:
    """Results without what has no meaning: ids of shares, empty fields, the order of conditions on nodes."""
    found: list[Written] = json.loads(json.dumps(results))
    for one in found:
        for device in one["devices"].get("results", ()):
            device.pop("shareID", None)
        for term in (one.get("nodeSelector") or {}).get("nodeSelectorTerms", ()):
            for field in ("matchExpressions", "matchFields"):
                conditions = [
                    {key: value for key, value in each.items() if value} for each in term.pop(field, ())
                ]
                if conditions:
                    term[field] = sorted(conditions, key=lambda each: json.dumps(each, sort_keys=True))
    return found


def answer(question: Written) -> Written:
    """What our allocator answers, in the words of the reference."""
    try:
        found = allocated(question)
    except (ClaimError, ObjectError) as error:
        return {"outcome": "error", "error": str(error)}
    if isinstance(found, Refusal):
        return {"outcome": "none", "error": found.reason}
    return {"outcome": "fit", "results": [short(one) for one in found]}


def allocated(question: Written) -> tuple[Allocation, ...] | Refusal:
    """What our allocator makes of a question."""
    allocator, claims, holders = taken_apart(question)
    return allocator.allocate(claims, HeldDevices.of(holders.values()))


def taken_apart(
    question: Written, order: CandidateOrder = first_fit
) -> tuple[Allocator, list[ResourceClaim], dict[str, Allocation]]:
    """The allocator of the node that is asked about, the claims, and what each holder has."""
    node = question["node"]["metadata"]
    facts = NodeFacts(node["name"], node.get("labels") or {})
    slices = [read_resource_slice(one) for one in _objects(question, "slices", ResourceSliceObject)]
    classes = [read_device_class(one) for one in _objects(question, "classes", DeviceClassObject)]
    claims = [read_resource_claim(one) for one in _objects(question, "claims", ResourceClaimObject)]
    holders = _objects(question, "holders", ResourceClaimObject)
    held = [(one.metadata.name, read_allocation(one)) for one in holders]
    allocator = Allocator(
        facts.name,
        SliceIndex(slices).pools(facts),
        {one.name: one for one in classes},
        Features(has_list_attributes=question["lists"]),
        order,
    )
    return allocator, claims, {name: one for name, one in held if one is not None}


def short(allocation: Allocation) -> Written:
    """An allocation as it is written, without the ids of shares."""
    written: Written = json.loads(msgspec.json.encode(write_allocation(allocation, lambda: "share")))
    return written


def _objects(question: Written, field: str, of: type[Object]) -> list[Object]:
    return msgspec.json.decode(msgspec.json.encode(question[field] or []), type=list[of])  # type: ignore[valid-type]
