"""I5, and the namespaces of I14: each time that a pod gets its node with a grant, its queue may have what
the pod takes.

What runs counts in the queue by which it was let in, whatever is written on it later. A grant of version 1
does not say which that was: then it is where the pod's words led when it was bound. Queues and namespaces may
have changed while the decision was under way, so it stands if it keeps to them as they were at any time
within the grace.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from gpufleet.auditor import amounts, charges, grants, pods, queue_access, quotas
from gpufleet.auditor.charges import Devices, Prices
from gpufleet.auditor.finding import Finding
from gpufleet.auditor.queue_access import Queues
from gpufleet.auditor.quotas import Tree
from gpufleet.auditor.reading import rows, section
from gpufleet.auditor.record import PODS, PRIORITY_CLASSES, Document, Write
from gpufleet.auditor.rules import Rules
from gpufleet.auditor.world import World

PREEMPTIBLE = "gpufleet.io/preemptible"


@dataclass(frozen=True, slots=True)
class Admitted:
    """A pod as it was let in."""

    pod: Document
    queue: str
    is_protected: bool


class Admissions:
    """Every pod that was let in and has not ended, with its queue."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self.admitted: dict[str, Admitted] = {}

    def follow(self, write: Write, world: World) -> Iterator[Finding]:
        """What broke with this write."""
        if write.kind != PODS:
            return
        uid, pod = pods.uid(write.latest), write.value
        if pod is None or not pods.holds(pod):
            self.admitted.pop(uid, None)
        elif uid not in self.admitted and pods.note(pod, pods.GRANT) is not None:
            found = self._admitted(pod, world)
            self.admitted[uid] = found
            yield from self._judged(found, world)

    def _admitted(self, pod: Document, world: World) -> Admitted:
        grant = grants.of_pod(pod)
        queues, spaces = next(world.versions(self._rules.grace_s))
        said = grant.queue if grant is not None else None
        queue = (
            said if said is not None else queue_access.queue_of(pod, queues, spaces.get(pods.namespace(pod)))
        )
        name = str(section(pod, "spec").get("priorityClassName") or "")
        by_class = (
            pods.labels(world.all(PRIORITY_CLASSES).get(name, {"metadata": {}})).get(PREEMPTIBLE) == "false"
        )
        says = grant is not None and "preemptible" in grant.terms
        return Admitted(pod, queue, grant.is_protected if grant is not None and says else by_class)

    def _judged(self, admitted: Admitted, world: World) -> Iterator[Finding]:
        """What is wrong by every version of queues and namespaces that the decision may have followed."""
        fewest: list[Finding] | None = None
        for queues, spaces in world.versions(self._rules.grace_s):
            found = [
                *self._namespace_access(admitted, queues, spaces, world),
                *self._quota(admitted, queues, world),
            ]
            # Which version the scheduler had seen is not known: a decision is right if any of them allows it.
            if not found:
                return
            fewest = found if fewest is None or len(found) < len(fewest) else fewest
        yield from fewest or ()

    def _namespace_access(
        self, admitted: Admitted, queues: Queues, spaces: dict[str, Document], world: World
    ) -> Iterator[Finding]:
        pod, space = admitted.pod, pods.namespace(admitted.pod)
        name, where = pods.name(pod), admitted.queue
        if not queues or (where == queue_access.DEFAULT and where not in queues):
            return
        if where not in queues:
            yield Finding(
                "I14", world.at_s, (name,), f"it was let in by queue {where}, which is not described"
            )
        elif not queue_access.lets_in(queues, where, space, pods.labels(spaces.get(space, {"metadata": {}}))):
            words = f"it was let in by queue {where}, which its namespace {space} may not use"
            yield Finding("I14", world.at_s, (name, where), words)

    def _quota(self, admitted: Admitted, queues: Queues, world: World) -> Iterator[Finding]:
        devices = Devices(world)
        for resource in quotas.resources_of(queues):
            tree = Tree(queues, resource)
            if not tree.is_limited(admitted.queue):
                continue
            prices = prices_of(queues, admitted.queue)
            more = charges.charge(admitted.pod, resource, devices, prices)
            if not more:
                continue
            direct, protected = self._use(resource, devices, prices, tree)
            broken = list(tree.broken(admitted.queue, direct, more))
            owner = tree.owner(admitted.queue)
            if admitted.is_protected and owner is not None:
                nominal, used = tree.limits(owner).nominal, protected.get(owner, Fraction(0))
                if used > nominal:
                    amount, most = quotas.words(used), quotas.words(nominal)
                    broken.append(
                        f"work that is never evicted uses {amount} of {most} that queue {owner} is owed"
                    )
            for words in broken:
                yield Finding(
                    "I5", world.at_s, (pods.name(admitted.pod), admitted.queue), f"{resource}: {words}"
                )

    def _use(
        self, resource: str, devices: Devices, prices: Prices, tree: Tree
    ) -> tuple[dict[str, Fraction], dict[str, Fraction]]:
        """What all pods take by queue, and what those that are never evicted take where that counts."""
        direct: dict[str, Fraction] = {}
        protected: dict[str, Fraction] = {}
        for one in self.admitted.values():
            amount = charges.charge(one.pod, resource, devices, prices)
            direct[one.queue] = direct.get(one.queue, Fraction(0)) + amount
            owner = tree.owner(one.queue)
            if one.is_protected and owner is not None:
                protected[owner] = protected.get(owner, Fraction(0)) + amount
        return direct, protected


def prices_of(queues: Queues, queue: str) -> Prices:
    """What GPUs cost by model, as the root above the queue says."""
    root: Document = {}
    for _, spec in queue_access.path(queues, queue):
        root = spec
    said = ((str(one.get("model")), one.get("price")) for one in rows(root, "prices"))
    return {model: amounts.read(price) for model, price in said if isinstance(price, str | int | float)}
