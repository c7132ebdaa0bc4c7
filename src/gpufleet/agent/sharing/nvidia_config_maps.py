"""NVIDIA's ConfigMaps in the places where its guides put them, followed in the API.

None of them has to exist: without any, every GPU is offered as it is. One that is there counts where no
other device plugin for NVIDIA's GPUs serves the node: otherwise it is that plugin's configuration, and is
left to it. Two that say different things are refused, since nothing says which of them counts.
"""

import asyncio
from collections.abc import Callable, Iterable

import msgspec

from gpufleet.agent.sharing.sharing_texts import NOT_LOADED, ConfigMap, Texts
from gpufleet.agent.state.topic import Topic
from gpufleet.kube import resources
from gpufleet.kube.changes import Change
from gpufleet.kube.client import Client
from gpufleet.kube.listing import Selection
from gpufleet.kube.mirror import Mirror

# No event says that a device plugin starts or ends; a look is a list of one small folder.
LOOK_EVERY_S = 10.0
# An API server that restarts answers within this; later it is told that a ConfigMap cannot be read.
UNREAD_AFTER_S = 30.0

Place = tuple[str, str]
"""Namespace and name of a ConfigMap."""


def no_other_plugin() -> tuple[str, ...]:
    """The node is this agent's alone."""
    return ()


class NvidiaConfigMaps:
    """Keeps ``topic``, from the first of ``places`` that exists.

    ``other_plugins`` names the sockets of other device plugins for NVIDIA's GPUs on this node.
    """

    def __init__(
        self,
        client: Client,
        places: Iterable[Place],
        other_plugins: Callable[[], tuple[str, ...]] = no_other_plugin,
    ) -> None:
        self.topic = Topic(NOT_LOADED)
        self._clock = client.clock
        self._other_plugins = other_plugins
        self._since_s = self._clock.monotonic_s()
        self._mirrors = {
            (namespace, name): Mirror(
                client,
                resources.CONFIG_MAPS,
                msgspec.json.Decoder(ConfigMap),
                self._changed,
                namespace=namespace,
                selection=Selection(fields=f"metadata.name={name}"),
            )
            for namespace, name in dict.fromkeys(places)
        }

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as group:
            for mirror in self._mirrors.values():
                group.create_task(mirror.run())
            group.create_task(self._look())

    async def _look(self) -> None:
        while True:
            self.topic.publish(self._texts())
            await self._clock.sleep(LOOK_EVERY_S)

    def _changed(self, _: Change[ConfigMap]) -> None:
        self.topic.publish(self._texts())

    def _texts(self) -> Texts:
        found = {
            place: config_map.data or {}
            for place, mirror in self._mirrors.items()
            if (config_map := mirror.get(place[1], place[0])) is not None
        }
        if not found:
            return self._none()
        where, data = _title(next(iter(found))), next(iter(found.values()))
        if others := self._other_plugins():
            why = f"it is the configuration of the device plugin that serves this node at {', '.join(others)}"
            return Texts(where=where, left=why, is_nvidias=True)
        if any(other != data for other in found.values()):
            problem = (
                f"{_all_titles(found)} say different things, and nothing says which of them counts: delete "
                "all but one, or name one (--nvidia-config-map, agent.sharing.nvidiaConfigMaps of the chart)"
            )
            return Texts(where=where, problem=problem, is_nvidias=True)
        return Texts({key: text.encode() for key, text in data.items()}, where, is_nvidias=True)

    def _none(self) -> Texts:
        """What holds while no ConfigMap is known: none may be missed that cannot be read."""
        unread = {place: mirror for place, mirror in self._mirrors.items() if not mirror.health().listed}
        if not unread:
            return Texts(where=_all_titles(self._mirrors), is_absent=True, is_nvidias=True)
        if self._clock.monotonic_s() - self._since_s < UNREAD_AFTER_S:
            return NOT_LOADED
        why = f"it cannot be read: {next(iter(unread.values())).health().problem}"
        return Texts(where=_all_titles(unread), left=why, is_nvidias=True)


def _title(place: Place) -> str:
    return "ConfigMap {}/{}".format(*place)


def _all_titles(places: Iterable[Place]) -> str:
    return " and ".join(map(_title, places))
