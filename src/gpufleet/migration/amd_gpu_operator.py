"""AMD's GPU operator: DeviceConfig of amd.com/v1alpha1.

The operator makes the tag of a driver's image from the system, the kernel and the version of each node, so no
digest follows from the object: the driver is refused with that reason, and everything else of it is the
agent's, or that of AMD's other pods.
"""

from collections.abc import Iterable

from gpufleet.migration.field_notes import FieldNotes
from gpufleet.migration.fleet_policies import PolicyDraft, tell_rest
from gpufleet.migration.sources import Source

GROUP = "amd.com"
KINDS = ("DeviceConfig",)
NODES = {"feature.node.kubernetes.io/amd-gpu": "true"}
"""The nodes of a DeviceConfig that names none."""

CONTAINER = "container"
_TAG = (
    "refused: the operator makes its tag from system, kernel and version; set driver.image by digest, "
    "in one policy for each kernel"
)
_BUILD = "refused: gpufleet builds and signs no images; AMD's operator or Kernel Module Management does"
_ROLLOUT = "refused with the driver's image: a rollout brings images by digest"
_AGENT = "ignored: gpufleet's agent is the device plugin, and writes the labels"

REASONS = {
    "spec.driver": _BUILD,
    "spec.driver.image": _TAG,
    "spec.driver.version": _TAG,
    "spec.driver.upgradePolicy": _ROLLOUT,
    "spec.driver.blacklist": "refused: what the host loads is the host's own image",
    "spec.driver.tolerations": "ignored: a setting of the operator's own pods",
    "spec.commonConfig": "ignored: settings of the operator's own pods",
    "spec.devicePlugin": _AGENT,
    "spec.devicePlugin.devicePluginArguments": "names of resources follow the agent's sharing config",
    "spec.devicePlugin.kubeletSocketPath": "set agent.kubeletFolder of the chart",
    "spec.draDriver": "set agent.dra.cards of the chart: the agent serves claims to AMD's GPUs",
    "spec.metricsExporter": "ignored: the agent serves metrics of AMD's GPUs at its port 9400",
    "spec.metricsExporter.prometheus": "set serviceMonitor.enabled and its values of the chart",
    "spec.configManager": "refused: gpufleet changes no partitions of AMD's GPUs",
    "spec.testRunner": "ignored: gpufleet runs no tests of AMD's",
    "spec.remediationWorkflow": "ignored: the agent takes a broken GPU out of service; no workflow starts",
}


def convert(sources: Iterable[Source], notes: FieldNotes) -> tuple[PolicyDraft, ...]:
    """The FleetPolicies for these objects; the notes say what became of each field."""
    ours = [one for one in sources if one.group == GROUP and one.kind in KINDS]
    found = (_policy(one, notes) for one in ours)
    return tuple(draft for draft in found if draft is not None)


def _policy(source: Source, notes: FieldNotes) -> PolicyDraft | None:
    kind = source.text("spec", "driver", "driverType") or CONTAINER
    if kind != CONTAINER:
        notes.lost(
            source, "spec", f"refused: driver type {kind} is for virtual machines, which are not gpufleet's"
        )
        notes.finish(source)
        return None
    labels = {str(key): str(value) for key, value in source.mapping("spec", "selector").items()}
    draft = PolicyDraft(source.name, source.title, labels or dict(NODES))
    if source.get("spec", "selector") is not None:
        said = "" if labels else "empty: nodes with a GPU of AMD's"
        notes.honoured(source, "spec.selector", "spec.nodeSelector", said)
    if source.get("spec", "driver", "driverType") is not None:
        notes.honoured(source, "spec.driver.driverType", "", "as ever: the driver of the machine itself")
    # Older samples write it as a text.
    enabled = source.get("spec", "driver", "enable")
    if str(enabled).lower() == "false":
        draft.driver = {"source": "Host"}
        notes.honoured(source, "spec.driver.enable", "spec.driver.source", "the driver is the host's")
    elif enabled is not None:
        notes.lost(source, "spec.driver.enable", _TAG)
    tell_rest(source, notes, REASONS)
    return draft
