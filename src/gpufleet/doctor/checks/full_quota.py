"""Resource quotas that are used up, or smaller than one pod, so that GPU pods are not even made."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.views.refusals import PodRefusal, RefusalCause, quota_amounts, refusals
from gpufleet.model.quantity import Quantity


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """Each quota that refuses pods of GPU work."""
    found: dict[str, list[PodRefusal]] = {}
    for one in refusals(facts, RefusalCause.QUOTA_FULL):
        found.setdefault(f"{one.namespace}/{one.words['name']}", []).append(one)
    for quota, group in found.items():
        yield _failure(quota, group)
    if not found and facts.of_kind("ResourceQuota"):
        yield Good("no quota refuses pods of GPU work")


def _failure(quota: str, group: list[PodRefusal]) -> Failure:
    first = group[0]
    requested, used, limited = (quota_amounts(first.words[name]) for name in ("requested", "used", "limited"))
    hopeless = [name for name in requested if name in limited and requested[name].nano > limited[name].nano]
    who = listed(one.workload.title for one in group)
    says = (
        f"a pod asks for {requested[hopeless[0]]} {hopeless[0]}, all of the quota is {limited[hopeless[0]]}"
        if hopeless
        else "the quota is used up, so further pods are refused"
    )
    needed = {name: str(used.get(name, Quantity(0)) + count) for name, count in requested.items()}
    pairs = ", ".join(f'"{name}": "{value}"' for name, value in needed.items())
    patch = f'{{"spec": {{"hard": {{{pairs}}}}}}}'
    place, _, name = quota.partition("/")
    raise_it = Remedy(
        "raise the quota, if the team may have more",
        f"kubectl patch resourcequota -n {place} {name} --type merge -p '{patch}'",
    )
    look = Remedy("or see what holds it, and end what is not needed", f"kubectl get pods -n {place} -o wide")
    seen = ", ".join(f"{name} {first.words[name]}" for name in ("requested", "used", "limited"))
    return Failure(
        f"ResourceQuota {quota}, {who}: {says}",
        (f"ResourceQuota {quota}", *(one.workload.title for one in group)),
        (seen, *(f"{one.maker.title}: {one.message}" for one in group)),
        (raise_it,) if hopeless else (raise_it, look),
        frozenset[str]().union(*(one.affects for one in group)),
    )


CHECK = Check(
    "quota-full",
    Point.QUOTAS,
    Layer.ADMISSION,
    "Quotas let GPU pods be made",
    "What a quota refuses is never made: no pending pod is seen, and no scheduler hears of it.",
    judge,
    ("ResourceQuota",),
    written=True,
)
