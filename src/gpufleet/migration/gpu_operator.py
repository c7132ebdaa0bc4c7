"""NVIDIA's GPU operator: ClusterPolicy of nvidia.com/v1 and NVIDIADriver of nvidia.com/v1alpha1.

A ClusterPolicy becomes one FleetPolicy for all nodes with a GPU, each NVIDIADriver one for its nodes. As in
the operator, the oldest ClusterPolicy counts alone, and NVIDIADrivers count only where it says so.
"""

from collections.abc import Iterable
from typing import Any

from gpufleet.kube.meanings.node_labels import GPU_PRESENT
from gpufleet.migration.field_notes import FieldNotes
from gpufleet.migration.fleet_policies import REASON_OF_TAG, PolicyDraft, image_by_digest, tell_rest
from gpufleet.migration.sources import Source

GROUP = "nvidia.com"
CLUSTER_POLICY, NVIDIA_DRIVER = "ClusterPolicy", "NVIDIADriver"
KINDS = (CLUSTER_POLICY, NVIDIA_DRIVER)
MODULES = {"auto": "Auto", "open": "Open", "proprietary": "Proprietary"}

_AGENT = "ignored: gpufleet's agent does this itself"
_ROLLOUT = "ignored: gpufleet carries out no rollouts yet; keep the value for then"
_PODS = "ignored: settings of the operator's own pods"
_BUILD = "ignored: a setting of the driver's container, which gpufleet does not start yet"
_SANDBOX = "refused: GPUs for virtual machines are not gpufleet's"
_VALIDATE = "ignored: gpufleet's agent reports a GPU only when its driver answers"

DRIVER_REASONS = {
    **dict.fromkeys(
        (
            *("args", "certConfig", "env", "kernelModuleConfig", "repoConfig", "secretEnv", "resources"),
            *("startupProbe", "livenessProbe", "readinessProbe", "imagePullPolicy", "imagePullSecrets"),
            *("annotations", "labels", "tolerations", "priorityClassName", "podSecurityContext"),
            *("securityContext", "affinity", "hostNetwork", "hostPID"),
        ),
        _BUILD,
    ),
    "manager": "ignored: the operator's own init container; gpufleet changes no drivers yet",
    "upgradePolicy": _ROLLOUT,
    "rdma": "refused: kernel modules for RDMA are the host's or another operator's",
    "gds": "refused: GPUDirect Storage is not gpufleet's",
    "gdrcopy": "refused: GDRCopy is not gpufleet's",
    "licensingConfig": "refused: licences of vGPU guests are not gpufleet's",
    "virtualTopology": "refused: topologies of vGPU guests are not gpufleet's",
    "virtualTopologyConfig": "refused: topologies of vGPU guests are not gpufleet's",
    "repository": "a part of the image, which is taken by digest alone",
    "image": "a part of the image, which is taken by digest alone",
    "nodeSelector": _PODS,
}
"""Of a driver's block, by the path below it."""

REASONS = {
    "spec.operator": "ignored: settings of the operator's own process",
    "spec.daemonsets": "ignored: settings of the operator's pods; those of the agent are values of the chart",
    "spec.psp": "ignored: PodSecurityPolicy is gone since Kubernetes 1.25",
    "spec.psa": "ignored: the chart labels no namespace",
    "spec.validator": _VALIDATE,
    "spec.toolkit": "ignored: settings of the toolkit's container",
    "spec.devicePlugin": _AGENT,
    "spec.devicePlugin.config.name": "set agent.sharing.existingConfigMap of the chart to this ConfigMap",
    "spec.devicePlugin.mps": "set agent.mps.enabled and agent.mps.folder of the chart",
    "spec.dcgm": _AGENT,
    "spec.dcgmExporter": "ignored: the agent serves the same series at its port 9400",
    "spec.dcgmExporter.serviceMonitor": "set serviceMonitor.enabled and its values of the chart",
    "spec.dcgmExporter.config": "give the agent a file of counters: --counters",
    "spec.nodeStatusExporter": "ignored: the agent and gpufleet check tell of the state of nodes",
    "spec.gfd": "ignored: the agent writes the same labels",
    "spec.mig.strategy": "set flags.migStrategy in the sharing config",
    "spec.migManager": "ignored: the MIG manager stays; gpufleet names the layout, and the manager makes it",
    "spec.gds": DRIVER_REASONS["gds"],
    "spec.gdrcopy": DRIVER_REASONS["gdrcopy"],
    "spec.sandboxWorkloads": _SANDBOX,
    "spec.vgpuManager": _SANDBOX,
    "spec.vgpuDeviceManager": _SANDBOX,
    "spec.sandboxDevicePlugin": _SANDBOX,
    "spec.kataSandboxDevicePlugin": _SANDBOX,
    "spec.vfioManager": _SANDBOX,
    "spec.kataManager": _SANDBOX,
    "spec.ccManager": "refused: modes of confidential computing are not gpufleet's",
    "spec.cdi.default": "ignored: deprecated, and without effect in the operator",
    "spec.cdi.nriPluginEnabled": "ignored: the agent hands CDI names to the kubelet",
    "spec.hostPaths": "set agent.driverFolder and agent.kubeletFolder of the chart",
    **{f"spec.driver.{path}": reason for path, reason in DRIVER_REASONS.items()},
}


def convert(sources: Iterable[Source], notes: FieldNotes) -> tuple[PolicyDraft, ...]:
    """The FleetPolicies for these objects; the notes say what became of each field."""
    ours = [one for one in sources if one.group == GROUP and one.kind in KINDS]
    clusters = sorted((one for one in ours if one.kind == CLUSTER_POLICY), key=_age)
    drafts = [_of_cluster_policy(source, notes) for source in clusters[:1]]
    for source in clusters[1:]:
        _refuse(source, notes, f"refused: the operator takes the oldest alone, {clusters[0].title}")
    drivers_count = not clusters or clusters[0].get("spec", "driver", "useNvidiaDriverCRD") is True
    for source in (one for one in ours if one.kind == NVIDIA_DRIVER):
        if drivers_count:
            drafts += _of_driver(source, notes)
        else:
            reason = f"refused: {clusters[0].title} does not use NVIDIADrivers (useNvidiaDriverCRD)"
            _refuse(source, notes, reason)
    return tuple(drafts)


def _age(source: Source) -> tuple[str, str]:
    return str(source.get("metadata", "creationTimestamp") or ""), source.name


def _refuse(source: Source, notes: FieldNotes, reason: str) -> None:
    notes.lost(source, "spec", reason)
    notes.finish(source)


def _of_cluster_policy(source: Source, notes: FieldNotes) -> PolicyDraft:
    draft = PolicyDraft(source.name, source.title, {GPU_PRESENT: "true"})
    _cluster_driver(source, draft, notes)
    _runtime(source, draft, notes)
    for path, becomes in (
        (("spec", "devicePlugin", "config", "default"), "sharingConfig"),
        (("spec", "migManager", "config", "default"), "migLayout"),
    ):
        name = source.text(*path)
        if source.get(*path) is None:
            continue
        if not name:
            notes.lost(source, ".".join(path), "empty: none is named")
            continue
        draft.sharing_config = name if becomes == "sharingConfig" else draft.sharing_config
        draft.mig_layout = name if becomes == "migLayout" else draft.mig_layout
        notes.approximated(
            source, ".".join(path), f"spec.{becomes}", "also on nodes whose label would be empty so far"
        )
    tell_rest(source, notes, REASONS)
    return draft


def _cluster_driver(source: Source, draft: PolicyDraft, notes: FieldNotes) -> None:
    enabled = source.get("spec", "driver", "enabled")
    if source.get("spec", "driver", "useNvidiaDriverCRD") is True:
        notes.honoured(source, "spec.driver.useNvidiaDriverCRD", "", "drivers come from NVIDIADrivers alone")
        notes.lost(source, "spec.driver", "ignored: drivers come from NVIDIADrivers")
        return
    if source.get("spec", "driver", "useNvidiaDriverCRD") is not None:
        notes.honoured(source, "spec.driver.useNvidiaDriverCRD", "", "drivers come from this object alone")
    if enabled is False:
        draft.driver = {"source": "Host"}
        notes.honoured(source, "spec.driver.enabled", "spec.driver.source", "the driver is the host's")
        notes.lost(source, "spec.driver", "ignored: the operator's driver is off")
        return
    has_image = _driver(source, draft, notes, ("spec", "driver"))
    if enabled is not None and has_image:
        notes.honoured(source, "spec.driver.enabled", "spec.driver.source")
    elif enabled is not None:
        notes.lost(source, "spec.driver.enabled", REASON_OF_TAG)


def _driver(source: Source, draft: PolicyDraft, notes: FieldNotes, path: tuple[str, ...]) -> bool:
    """The image, its build and its modules; False where the image is not named by digest."""
    place = ".".join(path)
    image = image_by_digest(source, *path)
    if image is None:
        for part in ("version", "usePrecompiled", "kernelModuleType", "useOpenKernelModules"):
            if source.get(*path, part) is not None:
                notes.lost(source, f"{place}.{part}", REASON_OF_TAG)
        return False
    draft.driver = {"source": "Image", "image": image}
    for part in ("repository", "image", "version"):
        if source.get(*path, part) is not None:
            notes.honoured(source, f"{place}.{part}", "spec.driver.image")
    precompiled = source.get(*path, "usePrecompiled")
    if precompiled is not None:
        draft.driver["build"] = "Precompiled" if precompiled is True else "Built"
        notes.honoured(source, f"{place}.usePrecompiled", "spec.driver.build")
    _modules(source, draft, notes, path)
    return True


def _modules(source: Source, draft: PolicyDraft, notes: FieldNotes, path: tuple[str, ...]) -> None:
    place, kind = ".".join(path), source.text(*path, "kernelModuleType")
    if kind:
        if kind not in MODULES:
            raise source.error("unknown", f"{place}.kernelModuleType", kind, ", ".join(MODULES))
        draft.driver["kernelModules"] = MODULES[kind]
        notes.honoured(source, f"{place}.kernelModuleType", "spec.driver.kernelModules")
    old = source.get(*path, "useOpenKernelModules")
    if old is not None:
        # The operator has not read it since kernelModuleType is there.
        notes.lost(source, f"{place}.useOpenKernelModules", "ignored: replaced by kernelModuleType")


def _runtime(source: Source, draft: PolicyDraft, notes: FieldNotes) -> None:
    cdi, toolkit = source.get("spec", "cdi", "enabled"), source.get("spec", "toolkit", "enabled")
    image = image_by_digest(source, "spec", "toolkit")
    if cdi is True:
        draft.runtime = {"mode": "CDI"}
        notes.honoured(source, "spec.cdi.enabled", "spec.runtime.mode")
    elif cdi is not None:
        notes.lost(source, "spec.cdi.enabled", "off: see toolkit")
    if toolkit is None:
        return
    if cdi is True or toolkit is False:
        notes.lost(source, "spec.toolkit.enabled", "not needed: the agent hands CDI names to the kubelet")
    elif image is None:
        notes.lost(source, "spec.toolkit.enabled", REASON_OF_TAG.replace("driver.image", "runtime.image"))
    else:
        draft.runtime = {"mode": "Toolkit", "image": image}
        notes.honoured(source, "spec.toolkit.enabled", "spec.runtime.mode")
        for part in ("repository", "image", "version"):
            notes.honoured(source, f"spec.toolkit.{part}", "spec.runtime.image")


def _of_driver(source: Source, notes: FieldNotes) -> list[PolicyDraft]:
    kind = source.text("spec", "driverType") or "gpu"
    if kind != "gpu":
        _refuse(source, notes, f"refused: drivers of type {kind} are not gpufleet's")
        return []
    draft = PolicyDraft(source.name, source.title)
    if not _selector(source, draft, notes):
        _refuse(source, notes, "refused: nodeAffinity that no label selector says; write the policy by hand")
        return []
    if source.get("spec", "driverType") is not None:
        notes.honoured(source, "spec.driverType", "spec.driver.source", "gpu")
    _driver(source, draft, notes, ("spec",))
    if source.get("spec", "default") is not None:
        notes.approximated(
            source, "spec.default", "spec.nodeSelector", "a default driver is one for all nodes with a GPU"
        )
    tell_rest(source, notes, {f"spec.{path}": reason for path, reason in DRIVER_REASONS.items()})
    return [draft]


def _selector(source: Source, draft: PolicyDraft, notes: FieldNotes) -> bool:
    labels = {str(key): str(value) for key, value in source.mapping("spec", "nodeSelector").items()}
    draft.match_labels = labels or {GPU_PRESENT: "true"}
    if source.get("spec", "nodeSelector") is not None:
        said = "" if labels else "empty: all nodes with a GPU"
        notes.honoured(source, "spec.nodeSelector", "spec.nodeSelector", said)
    affinity = source.mapping("spec", "nodeAffinity")
    if not affinity:
        return True
    required = source.mapping("spec", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    terms: list[Any] = required.get("nodeSelectorTerms", [])
    simple = {"In", "NotIn", "Exists", "DoesNotExist"}
    # A label selector cannot say several terms, fields of nodes, or preferences.
    if len(terms) != 1 or set(terms[0]) - {"matchExpressions"} or set(affinity) - {_REQUIRED}:
        return False
    expressions = terms[0].get("matchExpressions", [])
    if any(one.get("operator") not in simple for one in expressions):
        return False
    draft.match_expressions = list(expressions)
    notes.honoured(source, "spec.nodeAffinity", "spec.nodeSelector.matchExpressions")
    return True


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
