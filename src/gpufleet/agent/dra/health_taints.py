"""Taints of devices that are out of service, from the health of their cards; none for a healthy one.

A taint goes as soon as the card is healthy again, which ``devices.health`` decides on evidence. It keeps new
claims away and ends nothing: whether work on a sick card goes on is decided elsewhere. Of NVIDIA's cards the
keys are those of its own driver where it has one, so that tolerations for it are understood.
"""

from gpufleet.agent.gpus.health_reason import reason_class, reason_slug
from gpufleet.agent.state.node_state import Gpu
from gpufleet.devices.health import Verdict
from gpufleet.kube.objects.resource_slices import WrittenTaint
from gpufleet.model.gpu_catalogue import Vendor

NO_SCHEDULE = "NoSchedule"
# Keys below a driver's name: an Xid with its number as value, a card that is gone, one that gives no answer.
XID = "xid"
LOST = "gpu-lost"
UNMONITORED = "unmonitored"
OUT_OF_SERVICE = "out-of-service"
"""Any other reason, by its class; also every reason of cards of other vendors."""

_XID_SLUG = "xid-"


def health_taints(driver: str, gpu: Gpu, instance: str = "") -> tuple[WrittenTaint, ...]:
    """The taints of a card, or of the part of it that has this UUID."""
    verdict, reason = gpu.health, gpu.reason
    if verdict is Verdict.HEALTHY and instance in gpu.sick_instances:
        verdict, reason = Verdict.UNHEALTHY, gpu.sick_instances[instance]
    if verdict is Verdict.HEALTHY:
        return ()
    key, value = _named(verdict, reason, is_nvidia=gpu.facts.vendor is Vendor.NVIDIA)
    return (WrittenTaint(f"{driver}/{key}", value, NO_SCHEDULE),)


def _named(verdict: Verdict, reason: str, *, is_nvidia: bool) -> tuple[str, str]:
    slug = reason_slug(verdict, reason)
    if not is_nvidia:
        return OUT_OF_SERVICE, slug
    if slug.startswith(_XID_SLUG):
        return XID, slug.removeprefix(_XID_SLUG)
    if reason_class(verdict, reason) == "missing":
        return LOST, ""
    if verdict is Verdict.UNKNOWN:
        return UNMONITORED, ""
    return OUT_OF_SERVICE, slug
