"""Services as checks read them: which pods they select, and whether a pod answers."""

from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.pods import PodView
from gpufleet.lint.objects.manifest import Manifest

_SERVICE = "kubernetes.io/service-name"


def pods_behind(facts: Facts, service: Manifest) -> tuple[PodView, ...]:
    """The pods that a Service selects; none where it selects by nothing."""
    selector = {name: one.text or "" for name, one in service.root.at("spec", "selector").entries()}
    return tuple(
        one
        for one in facts.pods_by_namespace.get(service.namespace, ())
        if selector and selector.items() <= one.labels.items()
    )


def silence(facts: Facts, namespace: str, name: str) -> str:
    """Why no pod answers for a Service; empty if one does, or that cannot be known."""
    service = facts.find("Service", namespace, name)
    if service is None:
        return f"there is no Service {namespace}/{name}" if "Service" in facts.listed else ""
    if service.root.text_at("spec", "type") == "ExternalName" or "EndpointSlice" not in facts.listed:
        return ""
    slices = [
        one
        for one in facts.of_kind("EndpointSlice")
        if one.namespace == namespace and one.labels.get(_SERVICE) == name
    ]
    ready = any(
        # The API says that an endpoint without this condition counts as ready.
        endpoint.text_at("conditions", "ready") != "false"
        for one in slices
        for endpoint in one.root.at("endpoints").items()
    )
    return "" if ready else f"Service {namespace}/{name} has no endpoint that is ready"
