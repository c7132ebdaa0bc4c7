"""What the configuration of a device plugin says of a node's GPUs, read as the plugin itself reads it."""

import posixpath
import re
from dataclasses import dataclass

from gpufleet.devices.device_errors import SharingError
from gpufleet.devices.facts import Driver, Fleet, GpuFacts
from gpufleet.devices.sharing.any_format import read_node_sharing
from gpufleet.devices.sharing.chosen import CONFIG_LABEL, FALLBACKS, FOUND_FALLBACKS, POOL_LABEL, chosen_key
from gpufleet.devices.sharing.plan import Fractions, Mig, SharingPlan, replicas_of
from gpufleet.devices.sharing.plugin import read_plugin_config
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.nodes import NodeView
from gpufleet.doctor.views.stack import Daemon, Stack, StackPart
from gpufleet.kube.meanings.node_labels import GPU_COUNT, NVIDIA_PRODUCT
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.resource_names import NVIDIA_GPU, NVIDIA_SHARED

_CONFIGURATION = re.compile(r"^version:\s*[\"']?(v1|gpufleet\.io/)", re.MULTILINE)
_OF_PLUGIN = re.compile(r"^version:\s*[\"']?v1", re.MULTILINE)
_FROM_API = "--config-map="
_IF_THERE = "--nvidia-config-map="
_DEFAULT_ARGUMENT = "--config-default="


@dataclass(frozen=True)
class Declared:
    """What is declared for a node: where, and how many of each resource it ought to offer.

    ``expected`` is None where that cannot be told. ``problem`` says why the plugin cannot use it, and
    ``is_missing`` that this is for want of a ConfigMap or of a key.
    """

    daemon: Daemon
    where: str
    expected: dict[str, int] | None = None
    problem: str = ""
    is_missing: bool = False

    @property
    def is_agents(self) -> bool:
        """Whether gpufleet's agent reads it, which follows edits by itself."""
        return StackPart.EXPORTER in self.daemon.parts


def declared_for(facts: Facts, stack: Stack, node: NodeView) -> Declared | None:
    """The configuration of the plugin on a node; None where it has none."""
    for daemon in stack.having(StackPart.PLUGIN):
        if node.name in daemon.pod_on:
            followed = _followed(facts, daemon)
            if any(_texts(one) != _texts(followed[0]) for one in followed):
                others = " and ".join(one.title for one in followed[1:])
                problem = f"{others} says something else, and nothing says which of them counts"
                return Declared(daemon, followed[0].title, None, problem)
            for namespace, name, key, is_optional in _sources(daemon):
                found = facts.find("ConfigMap", namespace, name)
                if found is not None:
                    if declared := _declared(daemon, found, key, node):
                        return declared
                elif not is_optional:
                    where = f"ConfigMap {namespace}/{name}"
                    return Declared(daemon, where, None, "it is not there", is_missing=True)
    return None


def config_maps_followed(daemon: Daemon) -> list[tuple[str, str]]:
    """Namespace and name of those of NVIDIA's guides that gpufleet's agent follows where they exist."""
    words = (word.removeprefix(_IF_THERE) for word in _words(daemon) if word.startswith(_IF_THERE))
    return [(namespace, name) for namespace, _, name in (word.partition("/") for word in words)]


def _followed(facts: Facts, daemon: Daemon) -> list[Manifest]:
    found = (facts.find("ConfigMap", *place) for place in config_maps_followed(daemon))
    return [one for one in found if one is not None]


def is_like_sharing(config_map: Manifest) -> bool:
    """Whether a key of it is a configuration of how GPUs are shared, NVIDIA's or ours."""
    return any(map(_CONFIGURATION.search, _texts(config_map).values()))


def shared_names(config_map: Manifest) -> frozenset[str]:
    """The resources that texts of NVIDIA's format share; none where one of them cannot be read."""
    found: set[str] = set()
    for text in _texts(config_map).values():
        try:
            replication = read_plugin_config(text).replication if _OF_PLUGIN.search(text) else None
        except SharingError:
            return frozenset()
        found |= {one.name for one in replication.resources} if replication is not None else set()
    return frozenset(found)


def _texts(config_map: Manifest) -> dict[str, str]:
    return {name: one.text or "" for name, one in config_map.root.at("data").entries()}


def _sources(daemon: Daemon) -> list[tuple[str, str, str, bool]]:
    """Namespace and name of each ConfigMap that it reads, the key if there is one, whether it may miss."""
    namespace = daemon.manifest.namespace
    found = []
    for word in _words(daemon):
        if word.startswith(_FROM_API):
            place, _, followed = word.removeprefix(_FROM_API).partition("/")
            found.append((place, followed, "", False))
    found += [(namespace, name, "", True) for namespace, name in config_maps_followed(daemon)]
    for volume in daemon.template.volumes:
        source = volume.field.at("configMap")
        if name := source.text_at("name"):
            found.append((namespace, name, _file_in(daemon, volume.name), source.at("optional").is_true))
    return found


def _file_in(daemon: Daemon, volume: str) -> str:
    """The file of a volume that CONFIG_FILE names; empty where it names none of it."""
    for container in daemon.template.all_containers:
        variable = container.variable("CONFIG_FILE")
        path = (variable.value if variable is not None else None) or ""
        for mount in container.mounts:
            if mount.volume == volume and path and posixpath.dirname(path) == mount.path:
                return posixpath.basename(path)
    return ""


def _declared(daemon: Daemon, config_map: Manifest, key: str, node: NodeView) -> Declared | None:
    # A ConfigMap that is mounted there may be for something else.
    texts = {name: text for name, text in _texts(config_map).items() if _CONFIGURATION.search(text)}
    if not texts:
        return None
    where = f"{config_map.title}"
    try:
        chosen = key or chosen_key(
            texts, node.labels.get(CONFIG_LABEL, ""), _default(daemon), _fallbacks(daemon)
        )
    except SharingError as refusal:
        return Declared(daemon, where, None, str(refusal), is_missing=True)
    if chosen is None or chosen not in texts:
        return None
    where = f"{where}, key {chosen}"
    try:
        fleet = _fleet(node)
        if fleet is None:
            return Declared(daemon, where)
        pool = node.labels.get(POOL_LABEL, "") or "default"
        plans = read_node_sharing(texts[chosen], [fleet], pool, where).plans
    except SharingError as refusal:
        return Declared(daemon, where, None, str(refusal))
    return Declared(daemon, where, _expected(list(plans.values())))


def _words(daemon: Daemon) -> list[str]:
    return [word for one in daemon.template.all_containers for word in one.words]


def _variable(daemon: Daemon, name: str) -> str:
    found = (one.variable(name) for one in daemon.template.all_containers)
    return next((one.value for one in found if one is not None and one.value), "")


def _default(daemon: Daemon) -> str:
    """The key for nodes without the label."""
    given = (
        word.removeprefix(_DEFAULT_ARGUMENT) for word in _words(daemon) if word.startswith(_DEFAULT_ARGUMENT)
    )
    return next(given, "") or _variable(daemon, "DEFAULT_CONFIG")


def _fallbacks(daemon: Daemon) -> tuple[str, ...]:
    if config_maps_followed(daemon):
        return FOUND_FALLBACKS
    given = _variable(daemon, "FALLBACK_STRATEGIES")
    return tuple(given.split(",")) if given else FALLBACKS


def _fleet(node: NodeView) -> Fleet | None:
    """The node's NVIDIA cards, as its agent or its labels tell; None where nothing does, or they are cut."""
    product = node.labels.get(NVIDIA_PRODUCT, "")
    if node.mig_names or "-MIG-" in product:
        return None
    cards = dict.fromkeys((one.text_at("id") or "").partition("::")[0] for one in node.device_fields)
    count = node.labels.get(GPU_COUNT, "")
    names = list(cards) or [f"GPU-{index}" for index in range(int(count) if count.isdecimal() else 0)]
    if not names or node.vendors != {Vendor.NVIDIA}:
        return None
    gpus = (
        GpuFacts(DeviceId(name), Vendor.NVIDIA, index, product.removesuffix("-SHARED"))
        for index, name in enumerate(names)
    )
    return Fleet(Driver(Vendor.NVIDIA, ""), tuple(gpus))


def _expected(plans: list[SharingPlan]) -> dict[str, int] | None:
    """How many of each resource the plans make; None where they cut cards."""
    if any(isinstance(one.mode, Mig) for one in plans):
        return None
    found = {NVIDIA_GPU: 0, NVIDIA_SHARED: 0}
    for plan in plans:
        if not isinstance(plan.mode, Fractions):
            found[NVIDIA_SHARED if plan.renamed else NVIDIA_GPU] += replicas_of(plan.mode)
    return found
