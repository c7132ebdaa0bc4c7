"""ConfigMaps with names of NVIDIA's guides that say how GPUs are shared, and that no device plugin reads."""

from collections.abc import Iterator

from gpufleet.devices.sharing.nvidia_places import SOUGHT_NAMES
from gpufleet.doctor.check import Check, Failure, Grade, Layer, Point, Remedy, Unjudged, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.live.references import CONFIG_MAPS_OF_GUIDES, config_maps_of_stack
from gpufleet.doctor.views.sharing import config_maps_followed, is_like_sharing
from gpufleet.doctor.views.stack import Daemon, StackPart, stack_of
from gpufleet.lint.objects.manifest import Manifest


def judge(facts: Facts) -> Iterator[Failure | Unjudged]:
    """Each ConfigMap, with what the plugins of this cluster read in its place."""
    read = config_maps_of_stack(facts.objects)
    plugins = stack_of(facts).having(StackPart.PLUGIN)
    for one in facts.of_kind("ConfigMap"):
        if one.name not in SOUGHT_NAMES or (one.namespace, one.name) in read or not is_like_sharing(one):
            continue
        if plugins:
            yield _failure(facts, one, plugins)
        else:
            yield Unjudged(f"{one.title}: no DaemonSet of a device plugin is there that could read it")


def _failure(facts: Facts, unread: Manifest, plugins: tuple[Daemon, ...]) -> Failure:
    keys = [name for name, _ in unread.root.at("data").entries()]
    readers = [f"{one.title} reads {_words(facts, one)}" for one in plugins]
    return Failure(
        f"{unread.title} says how GPUs are shared, and no device plugin reads it",
        (unread.title,),
        (f"{unread.title}: keys {listed(keys)}", *readers),
        (_mend(facts, unread, plugins), Remedy("or delete it", f"kubectl delete configmap {_place(unread)}")),
    )


def _words(facts: Facts, plugin: Daemon) -> str:
    """What a plugin reads: the ConfigMaps that are there, or where it would look for one."""
    named = sorted(config_maps_of_stack([plugin.manifest]))
    there = [place for place in named if facts.find("ConfigMap", *place) is not None]
    return listed("ConfigMap {}/{}".format(*place) for place in there or named) or "none"


def _mend(facts: Facts, unread: Manifest, plugins: tuple[Daemon, ...]) -> Remedy:
    followed = [place for plugin in plugins for place in config_maps_followed(plugin)]
    if followed:
        places = [place for place in followed if place[1] == unread.name] or followed
        there = (place for place in places if facts.find("Namespace", "", place[0]) is not None)
        namespace, name = next(there, places[0])
        return Remedy(f"put it where agents look for it: {namespace}/{name}", _copy(unread, namespace, name))
    if any(StackPart.EXPORTER in plugin.parts for plugin in plugins):
        return Remedy(
            "put its keys into the configuration that agents read: agent.sharing of gpufleet's chart"
        )
    return Remedy(
        "name it to the plugin: devicePlugin.config.name of the operator's chart, config.name of the plugin's"
    )


def _copy(unread: Manifest, namespace: str, name: str) -> str:
    """The command that makes a copy of it, key by key: what the server added to the object stays behind."""
    literals = []
    for key, _ in unread.root.at("data").entries():
        path = key.replace(".", "\\.")
        text = f"kubectl get configmap {_place(unread)} -o jsonpath='{{.data.{path}}}'"
        literals.append(f'--from-literal={key}="$({text})"')
    return f"kubectl create configmap -n {namespace} {name} {' '.join(literals)}"


def _place(one: Manifest) -> str:
    return f"-n {one.namespace} {one.name}"


CHECK = Check(
    "sharing-config-unread",
    Point.SHARING,
    Layer.OFFER,
    "Sharing configurations are read by a device plugin",
    "A ConfigMap in a namespace or under a name that no plugin reads is no error anywhere: GPUs stay whole.",
    judge,
    ("DaemonSet", CONFIG_MAPS_OF_GUIDES),
    Grade.RISK,
)
