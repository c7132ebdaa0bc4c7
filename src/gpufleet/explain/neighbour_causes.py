"""Causes that other pods and volumes make: ports, affinity, spread, claims."""

from collections.abc import Iterable, Iterator

from gpufleet.cluster.pods.pod_entry import Entry
from gpufleet.explain.answer import Finding
from gpufleet.explain.case import Case, Explain
from gpufleet.kube import resources
from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.codec.static_volumes import volume_reach, zone_reach
from gpufleet.kube.errors import ObjectError
from gpufleet.kube.objects.storage import PersistentVolume, PersistentVolumeClaim
from gpufleet.model.label_advice import nearest
from gpufleet.model.labels import NodeAffinity
from gpufleet.model.phrases import counted, listed
from gpufleet.model.pod import Pod
from gpufleet.model.pod_affinity import PodTerm
from gpufleet.model.relations import NO_RELATIONS, Relations


def ports(case: Case) -> Finding:
    """A port of the host that another pod has."""
    wanted = case.shape.relations.ports
    near = {node.name for node in case.near}
    holders = [
        entry
        for entry in case.placed
        if entry.node in near
        and any(one.conflicts(other) for one in wanted for other in _relations(entry).ports)
    ]
    numbers = listed(str(one.port) for one in wanted)
    nodes = counted(len(case.near), "node")
    why = f"host port {numbers} is taken on the {nodes} that would do, by {_names(holders)}"
    return Finding(
        "ports", why, ("leave hostPort out and use a Service", f"wait until {_names(holders[:1])} ends")
    )


def claim_in_use(case: Case) -> Finding:
    """A claim for one pod at a time (ReadWriteOncePod) that another pod uses."""
    claims = case.shape.relations.volumes.exclusive
    users = [entry for entry in case.placed if set(claims) & set(_relations(entry).volumes.exclusive)]
    why = f"claim {listed(claims)} is ReadWriteOncePod, and {_names(users)} uses it"
    ways = (f"wait until {_names(users)} ends", "make the claim ReadWriteOnce or ReadWriteMany to share it")
    return Finding("volume-in-use", why, ways)


def volume_limit(case: Case) -> Finding:
    """Nodes that cannot attach more volumes."""
    drivers = {one.driver for one in case.shape.relations.volumes.attachments}
    limits = [
        f"{node.name}: {limit} of {driver}"
        for node in case.near
        for driver, limit in node.volume_limits
        if driver in drivers
    ]
    why = f"the nodes that would do have as many volumes attached as they can ({listed(limits)})"
    return Finding("volume-limit", why, ("wait until a pod with a volume there ends", "add a node"))


def no_volume(case: Case) -> Finding:
    """A claim that is bound with the place, and no volume for it there."""
    claims = case.shape.relations.volumes.unbound
    sentences, ways = [], []
    for one in claims:
        namespace, _, name = one.claim.partition("/")
        claim = case.facts.picture.find(resources.PERSISTENT_VOLUME_CLAIMS, name, namespace)
        kind = "" if claim is None else claim.storage_class
        if one.provision is None:
            free = f", and the {len(one.candidates)} free volumes are elsewhere" if one.candidates else ""
            sentences.append(f"claim {harmless(name)} finds no free volume of class {harmless(kind)}{free}")
            ways.append(
                f"create a PersistentVolume of class {harmless(kind)} that is usable on {_near(case)}"
            )
        else:
            sentences.append(
                f"class {harmless(kind)} of claim {harmless(name)} can make no volume where there is room"
            )
            ways.append(f"see allowedTopologies and the free capacity of class {harmless(kind)}")
    return Finding("volume-unbound", "; ".join(sentences), tuple(ways))


def volume_elsewhere(case: Case) -> Finding:
    """A claim that is bound to a volume of another place."""
    sentences = []
    reached = None
    for claim, volume, reach in _volumes(case):
        nodes = {node.name for node in case.nodes if reach.accepts(node.labels, node.name)}
        if nodes.issuperset(node.name for node in case.nodes):
            continue
        reached = nodes if reached is None else reached & nodes
        sentences.append(
            f"claim {harmless(claim)} is on volume {harmless(volume)}, usable only where {_place(reach)}"
        )
    why = "; ".join(dict.fromkeys(sentences)) or "its volumes cannot be used on any node that would do"
    if reached:
        barred = sorted({one for name in reached for one in case.by_node.get(name, ())[:1]})
        way = f"make room on {listed(sorted(reached))}, where the volume is ({', '.join(barred)})"
    else:
        way = "no node is where the volume is: add one there, or move the data to a new claim"
    return Finding("volume-affinity", why, (way, f"{_near(case)} would do if the data were there"))


def _volumes(case: Case) -> Iterator[tuple[str, str, NodeAffinity]]:
    for used in case.entry.object.spec.volumes:
        source = used.persistent_volume_claim
        name = f"{case.entry.name.name}-{used.name}" if source is None else source.claim_name
        picture = case.facts.picture
        claim: PersistentVolumeClaim | None = picture.find(
            resources.PERSISTENT_VOLUME_CLAIMS, name, case.entry.name.namespace
        )
        volume: PersistentVolume | None = (
            None if claim is None else picture.find(resources.PERSISTENT_VOLUMES, claim.spec.volume_name)
        )
        if volume is None:
            continue
        try:
            for reach in (volume_reach(volume), zone_reach(volume)):
                yield name, volume.metadata.name, reach
        except ObjectError:
            continue


def _place(reach: NodeAffinity) -> str:
    terms = [
        " and ".join([*map(str, term.expressions), *(f"the node is {one.name}" for one in term.fields)])
        for term in reach.terms or ()
    ]
    return " or ".join(terms[:2])


def uneven(case: Case) -> Finding:
    """Topology spread that would be broken."""
    required = [one for one in case.shape.relations.spread if one.required]
    words = [f"{one.topology_key} with maxSkew {one.max_skew}" for one in required]
    known = {key for node in case.nodes for key in node.labels}
    unknown = [one.topology_key for one in required if one.topology_key not in known]
    if unknown:
        meant = nearest(unknown[0], known)
        way = f"did you mean the label {harmless(meant)}?" if meant else "label the nodes with it"
        why = f"no node has the label {listed(unknown)} by which it must be spread"
        return Finding("spread", why, (way,))
    evenly = f"it must be spread evenly over {listed(words)}"
    why = f"{evenly}, and the domains with room have too many such pods already"
    ways = ("make room in a domain that has fewer of these pods", "allow a larger maxSkew or ScheduleAnyway")
    return Finding("spread", why, ways)


def lonely(case: Case) -> Finding:
    """Pods that it must be near, and that are not where there is room, or nowhere."""
    placed = [entry.meaning for entry in case.placed if entry.meaning is not None]
    for term in case.shape.relations.affinity:
        joined = [pod for pod in placed if _selects(case, term, pod)]
        if not joined:
            return _no_such_neighbour(term, placed)
    term = case.shape.relations.affinity[0]
    near = [
        entry for entry in case.placed if entry.meaning is not None and _selects(case, term, entry.meaning)
    ]
    domains = sorted({_domain(case, entry, term.topology_key) for entry in near})
    share = f"it must share {harmless(term.topology_key)} with {_names(near)} ({listed(domains)})"
    why = f"{share}, and there is no room there"
    return Finding(
        "pod-affinity", why, (f"make room where {harmless(term.topology_key)} is {listed(domains)}",)
    )


def _no_such_neighbour(term: PodTerm, placed: list[Pod]) -> Finding:
    asked = _words(term)
    why = f"it must share {harmless(term.topology_key)} with a pod that has {asked}, and no such pod runs"
    ways = ["start such a pod first, or use preferred affinity"]
    for one in () if term.selector is None else term.selector.requirements:
        values = {dict(pod.labels).get(one.key) for pod in placed} - {None}
        meant = [nearest(value, [known for known in values if known]) for value in one.values]
        ways = [f"did you mean {one.key}: {harmless(value)}?" for value in meant if value] + ways
        if not values:
            key = nearest(one.key, {key for pod in placed for key, _ in pod.labels})
            ways = ([f"did you mean the label {harmless(key)}?"] if key and key != one.key else []) + ways
    return Finding("pod-affinity", why, tuple(ways))


def kept_apart(case: Case) -> Finding:
    """Pods on every node that would do from which this one must keep away."""
    terms = case.shape.relations.anti_affinity
    holders = [
        entry
        for entry in case.placed
        if entry.meaning is not None and any(_selects(case, term, entry.meaning) for term in terms)
    ]
    keys = listed(dict.fromkeys(term.topology_key for term in terms))
    why = f"it must not share {keys} with {_names(holders)}, and those are wherever there is room"
    return Finding("pod-anti-affinity", why, _ways_apart(holders))


def kept_away(case: Case) -> Finding:
    """Pods on every node that would do that keep this one away."""
    holders = [
        entry
        for entry in case.placed
        if any(_selects_from(case, entry, term) for term in _relations(entry).anti_affinity)
    ]
    why = f"{_names(holders)} must not share a node or domain with it, and those are wherever there is room"
    return Finding("others-anti-affinity", why, _ways_apart(holders))


def _ways_apart(holders: list[Entry]) -> tuple[str, ...]:
    return (
        f"wait until {_names(holders[:1])} ends",
        "use preferred anti-affinity, or more nodes than pods that keep apart",
    )


def _selects(case: Case, term: PodTerm, other: Pod) -> bool:
    scope = term.scope.accepts(other.namespace, case.labels_of(other.namespace))
    return scope and term.selector is not None and term.selector.accepts(dict(other.labels))


def _selects_from(case: Case, entry: Entry, term: PodTerm) -> bool:
    return entry.meaning is not None and _selects(case, term, case.meaning)


def _relations(entry: Entry) -> Relations:
    return NO_RELATIONS if entry.meaning is None else entry.meaning.shape.relations


def _words(term: PodTerm) -> str:
    asked = () if term.selector is None else term.selector.requirements
    return " and ".join(map(str, asked)) or "any label"


def _domain(case: Case, entry: Entry, key: str) -> str:
    node = case.facts.nodes.known.get(entry.node)
    return "" if node is None else node.labels.get(key, "")


def _names(entries: Iterable[Entry]) -> str:
    return listed(str(entry.name) for entry in entries) or "another pod"


def _near(case: Case) -> str:
    return listed(node.name for node in case.near)


CAUSES: dict[str, Explain] = {
    "ports": ports,
    "volume-in-use": claim_in_use,
    "volume-limit": volume_limit,
    "volume-unbound": no_volume,
    "volume-affinity": volume_elsewhere,
    "spread": uneven,
    "pod-affinity": lonely,
    "pod-anti-affinity": kept_apart,
    "others-anti-affinity": kept_away,
}
