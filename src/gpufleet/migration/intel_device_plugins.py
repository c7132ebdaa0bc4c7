"""Intel's device plugins: GpuDevicePlugin of deviceplugin.intel.com/v1, which says nothing of drivers."""

from collections.abc import Iterable

from gpufleet.migration.field_notes import FieldNotes
from gpufleet.migration.fleet_policies import PolicyDraft, tell_rest
from gpufleet.migration.sources import Source

GROUP = "deviceplugin.intel.com"
KINDS = ("GpuDevicePlugin",)
NODES = {"intel.feature.node.kubernetes.io/gpu": "true"}
"""The nodes of a plugin that names none: it runs everywhere, and does something where there is a GPU."""

_AGENT = "ignored: gpufleet's agent is the device plugin"
REASONS = {
    "spec.image": _AGENT,
    "spec.initImage": _AGENT,
    "spec.logLevel": "set agent.logLevel of the chart",
    "spec.tolerations": "set agent.tolerations of the chart",
    "spec.sharedDevNum": "say it in a sharing config of the agents, and name that in spec.sharingConfig",
    "spec.preferredAllocationPolicy": "ignored: the scheduler chooses the GPUs of a pod",
    "spec.enableMonitoring": "refused: no resource gives a pod all GPUs; the agent serves metrics",
    "spec.monitoringMode": "refused: no resource gives a pod all GPUs; the agent serves metrics",
    "spec.resourceManager": "ignored: fractions are gpufleet's own, asked for by pods",
    "spec.allowIDs": "refused: the agent serves every GPU that it finds",
    "spec.denyIDs": "refused: the agent serves every GPU that it finds",
    "spec.bypathMode": "ignored: the agent gives a container the nodes of its own GPUs",
}


def convert(sources: Iterable[Source], notes: FieldNotes) -> tuple[PolicyDraft, ...]:
    """The FleetPolicies for these objects; the notes say what became of each field."""
    return tuple(_policy(one, notes) for one in sources if one.group == GROUP and one.kind in KINDS)


def _policy(source: Source, notes: FieldNotes) -> PolicyDraft:
    labels = {str(key): str(value) for key, value in source.mapping("spec", "nodeSelector").items()}
    draft = PolicyDraft(source.name, source.title, labels or dict(NODES))
    if labels:
        notes.honoured(source, "spec.nodeSelector", "spec.nodeSelector")
    elif source.get("spec", "nodeSelector") is not None:
        reason = "empty is every node in the operator; here those with a GPU of Intel's"
        notes.approximated(source, "spec.nodeSelector", "spec.nodeSelector", reason)
    tell_rest(source, notes, REASONS)
    return draft
