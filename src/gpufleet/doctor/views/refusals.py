"""Pods that were never made: which controller was to make them, and what the API server said to that.

Such pods are nowhere to be seen; what is left are a condition of the ReplicaSet and events, which the server
keeps for an hour. What was refused once and made later is no refusal any more.
"""

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.status import conditions
from gpufleet.doctor.objects.workloads import Workload
from gpufleet.lint.objects.amounts import amount
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.model.quantity import Quantity

_REASON = "FailedCreate"


class RefusalCause(enum.Enum):
    """Why pods are refused, by the words of the API server and its admission plugins."""

    QUOTA_FULL = re.compile(
        r"exceeded quota: (?P<name>\S+), requested: (?P<requested>.*), used: (?P<used>.*), "
        r"limited: (?P<limited>.*)"
    )
    QUOTA_DEMANDS = re.compile(r"failed quota: (?P<name>\S+): must specify (?P<what>.*)")
    LIMIT_RANGE = re.compile(
        r"(?P<says>(maximum|minimum) \S+ (usage|storage|limit)? ?per (Container|Pod) is .*"
        r"|\S+ max limit to request ratio per .*)"
    )
    PRIORITY_CLASS = re.compile(r"no PriorityClass with name (?P<name>\S+) was found")
    WEBHOOK_DOWN = re.compile(r'failed calling webhook "(?P<name>[^"]+)": (?P<says>.*)')
    WEBHOOK = re.compile(r'admission webhook "(?P<name>[^"]+)" denied the request: ?(?P<says>.*)')
    POLICY = re.compile(
        r"ValidatingAdmissionPolicy '(?P<name>[^']+)' with binding '[^']+' denied request: (?P<says>.*)"
    )
    POD_SECURITY = re.compile(r'violates PodSecurity "(?P<name>[^"]+)": (?P<says>.*)')
    RUNTIME_CLASS = re.compile(r'RuntimeClass "(?P<name>[^"]+)" not found')
    OTHER = re.compile(r"(?P<says>.*)", re.DOTALL)


@dataclass(frozen=True)
class PodRefusal:
    """Pods of ``workload`` that ``maker`` could not make; ``words`` are the parts of the message."""

    workload: Workload
    maker: Manifest
    ground: RefusalCause
    words: dict[str, str]
    message: str

    @property
    def namespace(self) -> str:
        """The namespace of the pods that were refused."""
        return self.maker.namespace

    @property
    def affects(self) -> frozenset[str]:
        """The titles of the objects that suffer."""
        return self.workload.affects | {self.maker.title}


def refusals(facts: Facts, *grounds: RefusalCause) -> tuple[PodRefusal, ...]:
    """What was refused of GPU work or of the GPU stack and still lacks, on one of these grounds."""
    return tuple(one for one in facts.once(_refusals) if one.ground in grounds)


def _refusals(facts: Facts) -> tuple[PodRefusal, ...]:
    found = {}
    # Conditions come last: they say what holds now, and replace what an event of the last hour said.
    for maker, message in (*_refusals_in_events(facts), *_refusals_in_conditions(facts)):
        workload = facts.gpu_workload_above(maker) or facts.infrastructure_above(maker)
        if workload is None or not message or _ends(facts, maker):
            continue
        if _lacks_pods(maker):
            found[maker.title] = _read(workload, maker, message)
    return tuple(one for one in found.values() if not _is_mended(facts, one))


def _is_mended(facts: Facts, refusal: PodRefusal) -> bool:
    """Whether what refused the pods does so no more; its controller makes them with its next try."""
    name = refusal.words.get("name", "")
    match refusal.ground:
        case RefusalCause.QUOTA_FULL:
            return _is_listed(facts, "ResourceQuota") and _allows(facts, refusal)
        case RefusalCause.QUOTA_DEMANDS:
            known = _is_listed(facts, "ResourceQuota")
            return known and facts.find("ResourceQuota", refusal.namespace, name) is None
        case RefusalCause.LIMIT_RANGE:
            ranges = (one.namespace for one in facts.of_kind("LimitRange"))
            return _is_listed(facts, "LimitRange") and refusal.namespace not in ranges
    return False


def _is_listed(facts: Facts, kind: str) -> bool:
    return kind in facts.listed and kind not in facts.refused


def _allows(facts: Facts, refusal: PodRefusal) -> bool:
    """Whether the quota as it is now has room for the pod that it refused."""
    quota = facts.find("ResourceQuota", refusal.namespace, refusal.words["name"])
    if quota is None:
        return True
    status = quota.root.at("status")
    for name, asked in quota_amounts(refusal.words["requested"]).items():
        hard, used = amount(status.text_at("hard", name)), amount(status.text_at("used", name))
        if hard is not None and asked.nano + (0 if used is None else used.nano) > hard.nano:
            return False
    return True


def quota_amounts(text: str) -> dict[str, Quantity]:
    """What the server writes as NAME=AMOUNT,NAME=AMOUNT."""
    pairs = (one.partition("=") for one in text.split(","))
    return {name: found for name, _, value in pairs if (found := amount(value)) is not None}


def _ends(facts: Facts, maker: Manifest) -> bool:
    """Whether it, or its namespace, was told to end."""
    namespace = facts.find("Namespace", "", maker.namespace)
    around = (maker,) if namespace is None else (maker, namespace)
    return any(one.root.at("metadata", "deletionTimestamp").exists for one in around)


def _read(workload: Workload, maker: Manifest, message: str) -> PodRefusal:
    for ground in RefusalCause:
        if match := ground.value.search(message):
            return PodRefusal(workload, maker, ground, match.groupdict(), message)
    raise AssertionError(message)  # the last ground takes everything


def _refusals_in_events(facts: Facts) -> Iterator[tuple[Manifest, str]]:
    makers = {one.title: one for one in facts.objects if one.templates}
    told = [one.root for one in facts.of_kind("Event") if one.root.text_at("reason") == _REASON]
    # Of several events about one object the latest stays.
    told.sort(key=lambda one: one.text_at("lastTimestamp") or one.text_at("eventTime") or "")
    for event in told:
        kind, namespace, name = (
            event.text_at("involvedObject", key) for key in ("kind", "namespace", "name")
        )
        maker = makers.get(f"{kind} {namespace}/{name}")
        if maker is not None:
            yield maker, event.text_at("message") or ""


def _refusals_in_conditions(facts: Facts) -> Iterator[tuple[Manifest, str]]:
    for one in facts.of_kind("ReplicaSet", "ReplicationController"):
        failed = conditions(one.root.at("status")).get("ReplicaFailure")
        if failed is not None and failed.is_true and failed.reason == _REASON:
            yield one, failed.message


def _lacks_pods(maker: Manifest) -> bool:
    """Whether fewer of its pods are there than it wants; of kinds that do not say, yes."""
    spec, status = maker.root.at("spec"), maker.root.at("status")

    def number(*path: str, default: int = 0) -> int:
        found = maker.root.at(*path).integer
        return default if found is None else found

    match maker.kind:
        case "ReplicaSet" | "ReplicationController" | "StatefulSet":
            return number("status", "replicas") < number("spec", "replicas", default=1)
        case "DaemonSet":
            return number("status", "currentNumberScheduled") < number("status", "desiredNumberScheduled")
        case "Job" if maker.group == "batch":
            completions = spec.at("completions").integer
            wanted = number("spec", "parallelism", default=1)
            if completions is not None:
                wanted = min(wanted, completions - number("status", "succeeded"))
            return status.exists and not spec.at("suspend").is_true and number("status", "active") < wanted
    return True
