"""The labels of NVIDIA's GPU Feature Discovery, name by name and value by value.

That one shares all GPUs of a node alike; here each may be shared in its own way. Where they differ,
``gpu.sharing-strategy`` is "mixed" and ``gpu.replicas`` is left out, for no number would be true; fractions
are the strategy "fractions" with 0 replicas, since such a GPU is no ``nvidia.com/gpu``. Of a node with
several products the one with the most GPUs is told. What is not known has no label. Labels of vGPUs are
never made: nothing here reads what they come from.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from gpufleet.agent.labels.values import Labels, driver_of, gpus_of, is_number, valid_value
from gpufleet.agent.state.node_state import Gpu, NodeGpus
from gpufleet.devices.facts import Driver, MigFacts
from gpufleet.devices.sharing.plan import Exclusive, Fractions, Mig, Mps, TimeSlice
from gpufleet.model.gpu_catalogue import Vendor

DOMAIN = "nvidia.com"
WHOLE = f"{DOMAIN}/gpu"
TIMESTAMP = f"{DOMAIN}/gfd.timestamp"
UNKNOWN = "unknown"
# Classes of PCI devices: VGA controller, and 3D controller, as cards without a display are.
GRAPHICS_CLASS, COMPUTE_CLASS = 0x030000, 0x030200
COUNTS = ("count", "replicas", "memory")
PROFILE = re.compile(r"[0-9a-z][0-9a-z.]{0,30}([+-][a-z.]{0,10})?")

FAMILIES = {
    1: "tesla",
    2: "fermi",
    3: "kepler",
    5: "maxwell",
    6: "pascal",
    8: "ampere",
    9: "hopper",
    10: "blackwell",
    12: "blackwell",
    13: "rubin",
}
"""By the first number of the compute capability, where it alone decides."""


class Sharing(msgspec.Struct, frozen=True):
    """How GPUs or instances of one resource are shared."""

    strategy: str = "none"
    replicas: int | None = 1
    renamed: bool = False

    @property
    def suffix(self) -> str:
        """What stands behind the product where its resource is not exclusive."""
        # As NVIDIA's own discovery does: a resource that is renamed tells by its name that it is shared.
        return "-SHARED" if (self.replicas or 0) > 1 and not self.renamed else ""

    def labels(self, resource: str) -> Labels:
        """The labels that tell it."""
        found = {f"{resource}.sharing-strategy": self.strategy}
        if self.replicas is not None:
            found[f"{resource}.replicas"] = str(self.replicas)
        return found


NOT_SHARED = Sharing(replicas=0)
"""Of GPUs that are cut: none of them is given out."""


def nvidia_labels(known: NodeGpus, machine: str = "") -> Labels:
    """The labels of a node's NVIDIA GPUs; none without any."""
    gpus = gpus_of(known, Vendor.NVIDIA)
    if not gpus:
        return {}
    return {
        f"{DOMAIN}/gpu.machine": valid_value(machine) or UNKNOWN,
        **_versions(driver_of(known, Vendor.NVIDIA)),
        **_abilities(gpus),
        **_whole(gpus),
        **_instances(gpus),
        **_mode(gpus[0]),
        **_clique(gpus),
    }


def family(capability: tuple[int, int]) -> str:
    """The family of a compute capability; "undefined" for one without a name."""
    first, second = capability
    # Families that share their first number with another: 7.0 and 7.2 are Volta, 7.5 Turing, 8.9 Ada.
    if first == 7:
        return "volta" if second < 5 else "turing"
    if capability == (8, 9):
        return "ada-lovelace"
    return FAMILIES.get(first, "undefined")


def _versions(driver: Driver | None) -> Labels:
    found: Labels = {}
    if driver is None:
        return found
    parts = driver.version.split(".")
    if len(parts) in (2, 3) and all(map(is_number, parts)):
        major, minor, revision = (*parts, "")[:3]
        found |= _named("cuda.driver", major=major, minor=minor, rev=revision)
        found |= _named("cuda.driver-version", major=major, minor=minor, revision=revision)
        found |= _named("cuda.driver-version", full=driver.version)
    major, _, minor = (driver.runtime_version or "").partition(".")
    if is_number(major) and is_number(minor):
        found |= _named("cuda.runtime", major=major, minor=minor)
        found |= _named("cuda.runtime-version", major=major, minor=minor, full=f"{major}.{minor}")
    return found


def _named(prefix: str, **values: str) -> Labels:
    return {f"{DOMAIN}/{prefix}.{name}": value for name, value in values.items()}


def _abilities(gpus: Sequence[Gpu]) -> Labels:
    cuttable = any(gpu.facts.mig_enabled is not None for gpu in gpus)
    mps = any(isinstance(gpu.plan.mode, Mps) for gpu in gpus)
    return {f"{DOMAIN}/mig.capable": _switch(on=cuttable), f"{DOMAIN}/mps.capable": _switch(on=mps)}


def _switch(*, on: bool) -> str:
    return "true" if on else "false"


def _whole(gpus: Sequence[Gpu]) -> Labels:
    """Of the product with the most GPUs; those that are not cut say how it is shared."""
    counts = Counter(gpu.facts.product for gpu in gpus)
    # Of two products with as many GPUs that of the first GPU is told: a Counter keeps the order.
    product = max(counts, key=counts.__getitem__)
    same = [gpu for gpu in gpus if gpu.facts.product == product]
    uncut = [gpu for gpu in same if not gpu.facts.mig_enabled]
    sharing = _sharing(uncut) if uncut else NOT_SHARED
    facts = (uncut or same)[0].facts
    found = {f"{WHOLE}.count": str(len(same)), **sharing.labels(WHOLE)}
    if product:
        found[f"{WHOLE}.product"] = valid_value(product, ending=sharing.suffix)
    if facts.memory_mib is not None:
        found[f"{WHOLE}.memory"] = str(facts.memory_mib)
    if facts.compute_capability is not None:
        first, second = facts.compute_capability
        found[f"{WHOLE}.family"] = family(facts.compute_capability)
        found |= {f"{WHOLE}.compute.major": str(first), f"{WHOLE}.compute.minor": str(second)}
    return found


def _sharing(gpus: Iterable[Gpu]) -> Sharing:
    """How GPUs that are not cut are shared, if all alike."""
    ways = {_way(gpu) for gpu in gpus}
    return ways.pop() if len(ways) == 1 else Sharing("mixed", None)


def _way(gpu: Gpu) -> Sharing:
    match gpu.plan.mode:
        case TimeSlice(replicas):
            return Sharing("time-slicing", replicas, gpu.plan.renamed)
        case Mps(clients):
            return Sharing("mps", clients, gpu.plan.renamed)
        case Fractions():
            return Sharing("fractions", 0)
        case Exclusive():
            return Sharing()
        case Mig():
            return NOT_SHARED


def _instances(gpus: Sequence[Gpu]) -> Labels:
    """By the strategy that the plans follow; none where no plan offers instances."""
    cut = [gpu for gpu in gpus if isinstance(gpu.plan.mode, Mig)]
    if not cut:
        return {}
    if any(isinstance(gpu.plan.mode, Mig) and gpu.plan.mode.as_gpus for gpu in cut):
        return {f"{DOMAIN}/mig.strategy": "single", **_single(gpus)}
    found = {f"{DOMAIN}/mig.strategy": "mixed"}
    for profile in dict.fromkeys(one.profile for gpu in cut for one in gpu.facts.mig):
        resource = f"{DOMAIN}/mig-{profile.replace('+', '.')}"
        if PROFILE.fullmatch(profile):
            found |= _of_profile(cut, profile, resource)
    return found


def _single(gpus: Sequence[Gpu]) -> Labels:
    """Instances in place of GPUs: only where every GPU is cut, none is empty, and all are of one profile."""
    cut = [gpu for gpu in gpus if gpu.facts.mig_enabled]
    if not cut:
        return {}
    profiles = {one.profile for gpu in cut for one in gpu.facts.mig}
    if len(cut) < len(gpus) or not all(gpu.facts.mig for gpu in cut) or len(profiles) != 1:
        invalid = valid_value(cut[0].facts.product, ending="-MIG-INVALID")
        return {f"{WHOLE}.product": invalid, **dict.fromkeys((f"{WHOLE}.{one}" for one in COUNTS), "0")}
    return _of_profile(cut, profiles.pop(), WHOLE)


def _of_profile(gpus: Sequence[Gpu], profile: str, resource: str) -> Labels:
    """The labels of all instances of one profile, under this resource's name."""
    owners = [gpu for gpu in gpus if any(one.profile == profile for one in gpu.facts.mig)]
    instances = [one for gpu in owners for one in gpu.facts.mig if one.profile == profile]
    ways = {_way_of_instances(gpu, profile) for gpu in owners}
    sharing = ways.pop() if len(ways) == 1 else Sharing("mixed", None)
    ending = f"-MIG-{valid_value(profile)}{sharing.suffix}"
    return {
        f"{resource}.product": valid_value(owners[0].facts.product, ending=ending),
        f"{resource}.count": str(len(instances)),
        **sharing.labels(resource),
        **_attributes(instances[0], resource),
    }


def _way_of_instances(gpu: Gpu, profile: str) -> Sharing:
    mode = gpu.plan.mode
    replicas = mode.replicas.get(profile, 1) if isinstance(mode, Mig) else 1
    return Sharing("time-slicing", replicas, gpu.plan.renamed) if replicas > 1 else Sharing()


def _attributes(instance: MigFacts, resource: str) -> Labels:
    engines = instance.engines
    known = {
        "memory": instance.memory_mib,
        "multiprocessors": instance.multiprocessors,
        **_slices(instance.profile),
        "engines.copy": engines.copy,
        "engines.decoder": engines.decoders,
        "engines.encoder": engines.encoders,
        "engines.jpeg": engines.jpeg,
        "engines.ofa": engines.optical_flow,
    }
    return {f"{resource}.{name}": str(value) for name, value in known.items() if value is not None}


def _slices(profile: str) -> dict[str, int | None]:
    """The slices in a profile's name: 1c.3g.40gb has one of compute in a GPU instance of three."""
    words = profile.split(".")
    compute = next((word[:-1] for word in words if word.endswith("c") and is_number(word[:-1])), "")
    whole = next((word[:-1] for word in words if word.endswith("g") and is_number(word[:-1])), "")
    instance = int(whole) if whole else None
    return {"slices.gi": instance, "slices.ci": int(compute) if compute else instance}


def _mode(gpu: Gpu) -> Labels:
    """What the first GPU is for; a node whose GPUs differ in that is told by its first."""
    modes = {GRAPHICS_CLASS: "graphics", COMPUTE_CLASS: "compute"}
    found = gpu.facts.pci_class
    return {} if found is None else {f"{WHOLE}.mode": modes.get(found, UNKNOWN)}


def _clique(gpus: Iterable[Gpu]) -> Labels:
    """The fabric's cluster and clique, where all GPUs that are in one are in the same."""
    cliques = {gpu.facts.clique for gpu in gpus if gpu.facts.clique}
    return {f"{WHOLE}.clique": valid_value(cliques.pop())} if len(cliques) == 1 else {}
