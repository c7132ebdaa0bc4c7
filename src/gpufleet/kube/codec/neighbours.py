"""What a pod asks of its neighbours: ports, affinity, anti-affinity and spread.

The constraints that kube-scheduler adds to pods that ask for no spread (soft ones over hosts and zones) are
not added: a fleet of GPUs is packed, and a pod that wants spread says so.
"""

from collections.abc import Iterable, Iterator, Mapping

from gpufleet.kube.codec import selectors
from gpufleet.kube.codec.field_path import inside
from gpufleet.kube.objects import pod as wire
from gpufleet.kube.objects import selectors as written_selectors
from gpufleet.model.host_port import ANY_ADDRESS, HostPort
from gpufleet.model.labels import LabelSelector, Operator, Requirement
from gpufleet.model.model_errors import InputError
from gpufleet.model.pod_affinity import NamespaceScope, PodTerm, PreferredPodTerm
from gpufleet.model.relations import NO_RELATIONS, Relations
from gpufleet.model.topology_spread import SpreadConstraint

# Words of the API in affinity and topology spread constraints.
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
DO_NOT_SCHEDULE = "DoNotSchedule"
SCHEDULE_ANYWAY = "ScheduleAnyway"
HONOR = "Honor"
IGNORE = "Ignore"
PROTOCOLS = ("TCP", "UDP", "SCTP")
MAXIMUM_PORT = 65535
MAXIMUM_NAMESPACES = 10_000
"""A cluster has no more, by Kubernetes' own thresholds; longer lists would cost every round of decisions."""


def has_neighbours(spec: wire.PodSpec) -> bool:
    """True if the pod's namespace and labels may matter for where it may run."""
    affinity = spec.affinity
    terms = affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity)
    return bool(terms or spec.topology_spread_constraints)


def keys_looked_at(spec: wire.PodSpec) -> frozenset[str]:
    """The labels of its own that the pod's terms and constraints can see."""
    return frozenset(_keys_looked_at(spec))


def read_relations(spec: wire.PodSpec, namespace: str, labels: Mapping[str, str]) -> Relations:
    """Everything but the volumes. ``labels`` are the pod's, as far as its own selectors see them."""
    ports = host_ports(spec)
    if not has_neighbours(spec):
        return Relations(ports=ports) if ports else NO_RELATIONS
    affinity = spec.affinity or wire.Affinity()
    attraction = affinity.pod_affinity or wire.PodAffinity()
    repulsion = affinity.pod_anti_affinity or wire.PodAffinity()
    reader = _Reader(namespace, labels)
    return Relations(
        namespace=namespace,
        labels=tuple(sorted(labels.items())),
        ports=ports,
        affinity=reader.terms(attraction.required, "spec.affinity.podAffinity"),
        anti_affinity=reader.terms(repulsion.required, "spec.affinity.podAntiAffinity"),
        preferred=(
            *reader.wishes(attraction.preferred, "spec.affinity.podAffinity", 1),
            *reader.wishes(repulsion.preferred, "spec.affinity.podAntiAffinity", -1),
        ),
        spread=reader.spread(spec.topology_spread_constraints),
    )


def host_ports(spec: wire.PodSpec) -> tuple[HostPort, ...]:
    """The node's ports that the pod takes, of containers and sidecars, sorted."""
    # Other init containers have ended when the pod runs, and kube-scheduler leaves their ports out too.
    lasting = [one for one in spec.init_containers if one.restartable]
    found = {_host_port(port) for one in (*spec.containers, *lasting) for port in one.ports if port.host_port}
    return tuple(sorted(found))


def _host_port(port: wire.ContainerPort) -> HostPort:
    if not 0 < port.host_port <= MAXIMUM_PORT:
        raise InputError(
            "not a port", field="hostPort", value=port.host_port, expected=f"1 to {MAXIMUM_PORT}"
        )
    protocol = port.protocol or PROTOCOLS[0]
    if protocol not in PROTOCOLS:
        raise InputError("unknown", field="protocol", value=protocol, expected=", ".join(PROTOCOLS))
    return HostPort(port.host_port, protocol, port.host_ip or ANY_ADDRESS)


class _Reader:
    """Reads the terms of one pod."""

    def __init__(self, namespace: str, labels: Mapping[str, str]) -> None:
        self._namespace = namespace
        self._labels = labels

    def terms(self, written: tuple[wire.PodAffinityTerm, ...], field: str) -> tuple[PodTerm, ...]:
        _check_count(written, f"{field}.{REQUIRED}")
        return tuple(
            self._term(term, f"{field}.{REQUIRED}[{position}]") for position, term in enumerate(written)
        )

    def wishes(
        self, written: tuple[wire.WeightedPodAffinityTerm, ...], field: str, sign: int
    ) -> Iterator[PreferredPodTerm]:
        _check_count(written, f"{field}.{PREFERRED}")
        for position, wish in enumerate(written):
            place = f"{field}.{PREFERRED}[{position}]"
            if wish.weight < 1:
                raise InputError(
                    "out of range", field=f"{place}.weight", value=wish.weight, expected="1 to 100"
                )
            term = self._term(wish.pod_affinity_term, f"{place}.podAffinityTerm")
            with inside(place):
                yield PreferredPodTerm(sign * wish.weight, term)

    def spread(self, written: tuple[wire.TopologySpreadConstraint, ...]) -> tuple[SpreadConstraint, ...]:
        _check_count(written, "spec.topologySpreadConstraints")
        return tuple(
            self._constraint(constraint, f"spec.topologySpreadConstraints[{position}]")
            for position, constraint in enumerate(written)
        )

    def _term(self, term: wire.PodAffinityTerm, field: str) -> PodTerm:
        selector = selectors.label_selector(term.label_selector, f"{field}.labelSelector")
        # For Kubernetes a term without a selector selects no pod, and keys of labels do not change that.
        if selector is not None:
            selector = self._with_keys(selector, term.match_label_keys, Operator.IN)
            selector = self._with_keys(selector, term.mismatch_label_keys, Operator.NOT_IN)
        if len(term.namespaces) > MAXIMUM_NAMESPACES:
            problem = f"{len(term.namespaces)} namespaces"
            raise InputError(problem, field=f"{field}.namespaces", expected=f"at most {MAXIMUM_NAMESPACES}")
        # A term without namespaces and without a selector of namespaces means the pod's own.
        own = (self._namespace,) if not term.namespaces and term.namespace_selector is None else ()
        scope = NamespaceScope(
            tuple(sorted({*term.namespaces, *own})),
            selectors.label_selector(term.namespace_selector, f"{field}.namespaceSelector"),
        )
        with inside(field):
            return PodTerm(term.topology_key, scope, selector)

    def _with_keys(
        self, selector: LabelSelector, names: tuple[str, ...], operator: Operator
    ) -> LabelSelector:
        """The server writes these keys into the selector when the pod is made, with the values of
        that moment; only what it did not write is added here.
        """
        written = {(one.key, one.operator) for one in selector.requirements}
        added = tuple(
            Requirement(name, operator, (self._labels[name],))
            for name in names
            if name in self._labels and (name, operator) not in written
        )
        return LabelSelector(selectors.distinct((*selector.requirements, *added))) if added else selector

    def _constraint(self, written: wire.TopologySpreadConstraint, field: str) -> SpreadConstraint:
        selector = selectors.label_selector(written.label_selector, f"{field}.labelSelector")
        if selector is not None:
            # Unlike those of affinity, kube-scheduler looks these up anew each time.
            now = ((name, self._labels[name]) for name in written.match_label_keys if name in self._labels)
            selector = selectors.with_equal(selector, now)
        with inside(field):
            _check_choice(written.when_unsatisfiable, (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY), "whenUnsatisfiable")
            _check_choice(written.node_affinity_policy, ("", HONOR, IGNORE), "nodeAffinityPolicy")
            _check_choice(written.node_taints_policy, ("", HONOR, IGNORE), "nodeTaintsPolicy")
            return SpreadConstraint(
                written.max_skew,
                written.topology_key,
                selector,
                required=written.when_unsatisfiable == DO_NOT_SCHEDULE,
                min_domains=1 if written.min_domains is None else written.min_domains,
                # Kubernetes' defaults differ: nodes outside of the pod's affinity do not count, nodes with
                # taints do.
                honor_affinity=written.node_affinity_policy != IGNORE,
                honor_taints=written.node_taints_policy == HONOR,
            )


def _keys_looked_at(spec: wire.PodSpec) -> Iterator[str]:
    for term in _pod_terms(spec.affinity):
        yield from _selected_keys(term.label_selector)
        yield from term.match_label_keys
        yield from term.mismatch_label_keys
    for constraint in spec.topology_spread_constraints:
        yield from _selected_keys(constraint.label_selector)
        yield from constraint.match_label_keys


def _pod_terms(affinity: wire.Affinity | None) -> Iterator[wire.PodAffinityTerm]:
    if affinity is None:
        return
    for side in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if side is not None:
            yield from side.required
            yield from (wish.pod_affinity_term for wish in side.preferred)


def _selected_keys(selector: written_selectors.LabelSelector | None) -> Iterator[str]:
    if selector is not None:
        yield from selector.match_labels
        yield from (expression.key for expression in selector.match_expressions)


def _check_count(written: Iterable[object], field: str) -> None:
    count = len(tuple(written))
    if count > selectors.MAXIMUM_TERMS:
        raise InputError(f"{count} entries", field=field, expected=f"at most {selectors.MAXIMUM_TERMS}")


def _check_choice(text: str, choices: tuple[str, ...], field: str) -> None:
    if text not in choices:
        expected = " or ".join(choice for choice in choices if choice)
        raise InputError("unknown", field=field, value=text, expected=expected)
