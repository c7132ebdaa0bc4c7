"""NVIDIA's GPU operator: ClusterPolicy of nvidia.com/v1 and NVIDIADriver of nvidia.com/v1alpha1.

A ClusterPolicy becomes one FleetPolicy for all nodes with a GPU, each NVIDIADriver one for its nodes. As in
the operator, the oldest ClusterPolicy counts alone, and NVIDIADrivers count only where it says so.
"""

from collections.abc import Iterable
from typing import Any

from gpufleet.kube.meanings.node_labels import GPU_PRESENT
from gpufleet.migration.field_notes import FieldNotes, leaves
from gpufleet.migration.fleet_policies import REASON_OF_TAG, PolicyDraft, image_by_digest, tell_rest
from gpufleet.migration.sources import Source

GROUP = "nvidia.com"
CLUSTER_POLICY, NVIDIA_DRIVER = "ClusterPolicy", "NVIDIADriver"
KINDS = (CLUSTER_POLICY, NVIDIA_DRIVER)
MODULES = {"auto": "Auto", "open": "Open", "proprietary": "Proprietary"}

_AGENT = "ignored: gpufleet's agent does this itself"
_PODS = "ignored: settings of the operator's own pods"
_SETTING = "refused: a driver's container gets no settings beside kernelModules; put them into the image"
_SECRETS = "add them to the ServiceAccount default of gpufleet's namespace, which driver pods run as"
_SANDBOX = "refused: GPUs for virtual machines are not gpufleet's"
_VALIDATE = "ignored: gpufleet's agent reports a GPU only when its driver answers"

DRIVER_REASONS = {
    **dict.fromkeys(("args", "certConfig", "env", "kernelModuleConfig", "repoConfig", "secretEnv"), _SETTING),
    **dict.fromkeys(
        (
            *("startupProbe", "livenessProbe", "readinessProbe", "resources", "annotations", "labels"),
            *("tolerations", "priorityClassName", "podSecurityContext", "securityContext", "affinity"),
            *("hostNetwork", "hostPID", "nodeSelector"),
        ),
        _PODS,
    ),
    "imagePullPolicy": "ignored: an image by digest is always the same",
    "imagePullSecrets": _SECRETS,
    "manager": "ignored: gpufleet's operator empties nodes and pauses what holds their GPUs",
    "rdma": "refused: kernel modules for RDMA are the host's or another operator's",
    "gds": "refused: GPUDirect Storage is not gpufleet's",
    "gdrcopy": "refused: GDRCopy is not gpufleet's",
    "licensingConfig": "refused: licences of vGPU guests are not gpufleet's",
    "virtualTopology": "refused: topologies of vGPU guests are not gpufleet's",
    "virtualTopologyConfig": "refused: topologies of vGPU guests are not gpufleet's",
    "repository": "a part of the image, which is taken by digest alone",
    "image": "a part of the image, which is taken by digest alone",
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

UPGRADE = "upgradePolicy"
UNLIMITED = "100%"
"""``maxParallel`` where the operator's 0 sets no limit."""

_WITHOUT_IMAGE = "refused with the driver's image: a rollout brings images by digest"
_WAITS = "ignored: work that ends in time is waited for, whatever its labels"
_EVICTS = "ignored: pods with GPUs are moved or evicted, whole gangs at a time; none is deleted by force"
UPGRADE_REASONS = {
    "maxUnavailable": "ignored: maxParallel bounds the nodes that are under way",
    "waitForCompletion": _WAITS,
    "podDeletion": _EVICTS,
    "drain": _EVICTS,
}
"""Of an upgradePolicy, for what no field of a rollout says."""


def convert(sources: Iterable[Source], notes: FieldNotes) -> tuple[PolicyDraft, ...]:
    """The FleetPolicies for these objects; the notes say what became of each field."""
    ours = [one for one in sources if one.group == GROUP and one.kind in KINDS]
    clusters = sorted((one for one in ours if one.kind == CLUSTER_POLICY), key=_age)
    rollout = _cluster_rollout(clusters[0], ours, notes) if clusters else {}
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
    for draft in drafts:
        if "image" in draft.driver:
            draft.rollout = draft.rollout or rollout
    return tuple(drafts)


def _bring_images(objects: Iterable[Source], cluster: Source) -> bool:
    """Whether a driver comes by digest from those objects that count."""
    if cluster.get("spec", "driver", "useNvidiaDriverCRD") is True:
        return any(image_by_digest(one, "spec") for one in objects if one.kind == NVIDIA_DRIVER)
    is_off = cluster.get("spec", "driver", "enabled") is False
    return not is_off and image_by_digest(cluster, "spec", "driver") is not None


def _cluster_rollout(source: Source, objects: Iterable[Source], notes: FieldNotes) -> dict[str, Any]:
    """What a ClusterPolicy says of upgrades, for all drivers that say nothing themselves."""
    path = ("spec", "driver", UPGRADE)
    if _bring_images(objects, source):
        return _rollout(source, path, notes)
    if source.mapping(*path):
        notes.lost(source, ".".join(path), _WITHOUT_IMAGE)
    return {}


def _rollout(source: Source, path: tuple[str, ...], notes: FieldNotes) -> dict[str, Any]:
    """What an upgradePolicy says, as a rollout says it."""
    found: dict[str, Any] = {}
    place = ".".join(path)
    automatic = source.get(*path, "autoUpgrade")
    if automatic is False:
        found["paused"] = True
        said = "no node begins; the operator would change a driver when its pod is deleted"
        notes.approximated(source, f"{place}.autoUpgrade", "spec.rollout.paused", said)
    elif automatic is not None:
        notes.honoured(source, f"{place}.autoUpgrade", "spec.rollout")
    parallel = source.get(*path, "maxParallelUpgrades")
    if parallel:
        found["maxParallel"] = parallel
        notes.honoured(source, f"{place}.maxParallelUpgrades", "spec.rollout.maxParallel", "after one canary")
    elif parallel is not None:
        found["maxParallel"] = source.get(*path, "maxUnavailable") or UNLIMITED
        said = "no limit: maxUnavailable is the one that is left, after one canary"
        notes.approximated(source, f"{place}.maxParallelUpgrades", "spec.rollout.maxParallel", said)
    wait_s = source.get(*path, "waitForCompletion", "timeoutSeconds")
    if isinstance(wait_s, int) and wait_s > 0:
        leave_s = source.number(*path, "podDeletion", "timeoutSeconds") or 0
        found["drainTimeout"] = f"{wait_s + leave_s}s"
        said = "with the time that pods have to leave; then the node is given up, and no pod is deleted"
        field = f"{place}.waitForCompletion.timeoutSeconds"
        notes.approximated(source, field, "spec.rollout.drainTimeout", said)
    for leaf in leaves(source.mapping(*path), place):
        reason = UPGRADE_REASONS.get(leaf.removeprefix(f"{place}.").split(".")[0])
        if reason is not None and not notes.has_spoken_of(source, leaf):
            notes.lost(source, leaf, reason)
    return found


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
    if _driver(source, draft, notes, ("spec",)):
        draft.rollout = _rollout(source, ("spec", UPGRADE), notes)
    elif source.mapping("spec", UPGRADE):
        notes.lost(source, f"spec.{UPGRADE}", _WITHOUT_IMAGE)
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
