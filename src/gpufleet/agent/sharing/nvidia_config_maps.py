"""NVIDIA's ConfigMaps in the places where its guides put them, followed in the API.

None of them has to exist: without any, every GPU is offered as it is. One that is there counts where no
other device plugin for NVIDIA's GPUs serves the node: otherwise it is that plugin's configuration, and is
left to it. Two that say different things are refused, since nothing says which of them counts.

A watch is a connection of its own, and few of these ConfigMaps are ever there. So the agents of a large
fleet look for each now and then, and follow the one that they found.
"""

import asyncio
from collections.abc import Callable, Iterable

import msgspec

from gpufleet.agent.sharing.sharing_texts import NOT_LOADED, ConfigMap, Texts
from gpufleet.agent.state.topic import Topic
from gpufleet.kube import resources
from gpufleet.kube.backoff import ONE_TRY
from gpufleet.kube.client import Client
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.listing import Selection
from gpufleet.kube.mirror import Mirror
from gpufleet.kube.mirror_changes import Change
from gpufleet.kube.status import NotFound

# No event says that a device plugin starts or ends; a look is a list of one small folder.
POLL_EVERY_S = 10.0
SEARCH_EVERY_S = 45.0
"""So often each place is looked at: what is pasted counts within a minute."""

# An API server that restarts answers within this; later it is told that a ConfigMap cannot be read.
UNREAD_AFTER_S = 30.0

Place = tuple[str, str]
"""Namespace and name of a ConfigMap."""


def no_other_plugin() -> tuple[str, ...]:
    """The node is this agent's alone."""
    return ()


class NvidiaConfigMaps:
    """Keeps ``topic``, from the first of ``places`` that exists.

    ``other_plugins`` names other device plugins for NVIDIA's GPUs on this node, such as their sockets. Each
    place is looked at every ``search_every_s`` until there is a ConfigMap, which is followed from then on;
    with 0 each is followed from the beginning.
    """

    def __init__(
        self,
        client: Client,
        places: Iterable[Place],
        other_plugins: Callable[[], tuple[str, ...]] = no_other_plugin,
        search_every_s: float = 0.0,
    ) -> None:
        self.topic = Topic(NOT_LOADED)
        self._client = client
        self._clock = client.clock
        self._other_plugins = other_plugins
        self._every_s = search_every_s
        self._since_s = self._clock.monotonic_s()
        self._places = tuple(dict.fromkeys(places))
        self._mirrors: dict[Place, Mirror[ConfigMap]] = {}
        self._unread: dict[Place, str] = dict.fromkeys(self._places, "")

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look())
            if self._every_s:
                group.create_task(self._look_for_all(group))
            else:
                for place in self._places:
                    self._follow(place, group)

    async def _look_for_all(self, group: asyncio.TaskGroup) -> None:
        """At once where nothing is known yet, then one place after the other."""
        async with asyncio.TaskGroup() as first:
            for place in self._places:
                first.create_task(self._look_for(place, group))
        while True:
            for place in self._places:
                pause_s = self._every_s / len(self._places)
                await self._clock.sleep(pause_s * self._client.jitter.uniform(0.8, 1.2))
                if place not in self._mirrors:
                    await self._look_for(place, group)

    async def _look_for(self, place: Place, group: asyncio.TaskGroup) -> None:
        namespace, name = place
        try:
            await self._client.get(resources.CONFIG_MAPS, name, namespace=namespace, retry_limits=ONE_TRY)
        except NotFound:
            self._unread.pop(place, None)
        except KubeError as problem:
            # What was read once is not unknown because a server restarts.
            if place in self._unread:
                self._unread[place] = str(problem)
        else:
            self._follow(place, group)
        self.topic.publish(self._texts())

    def _follow(self, place: Place, group: asyncio.TaskGroup) -> None:
        namespace, name = place
        mirror = Mirror(
            self._client,
            resources.CONFIG_MAPS,
            msgspec.json.Decoder(ConfigMap),
            self._changed,
            namespace=namespace,
            selection=Selection(fields=f"metadata.name={name}"),
        )
        self._mirrors[place] = mirror
        group.create_task(mirror.run())

    async def _look(self) -> None:
        while True:
            self.topic.publish(self._texts())
            await self._clock.sleep(POLL_EVERY_S)

    def _changed(self, _: Change[ConfigMap]) -> None:
        self.topic.publish(self._texts())

    def _texts(self) -> Texts:
        found: dict[Place, dict[str, str]] = {}
        for place in self._places:
            mirror = self._mirrors.get(place)
            config_map = None if mirror is None else mirror.get(place[1], place[0])
            if config_map is not None:
                found[place] = config_map.data or {}
        if not found:
            return self._none()
        where, data = _title(next(iter(found))), next(iter(found.values()))
        if others := self._other_plugins():
            why = f"it is the configuration of the device plugin that serves this node ({', '.join(others)})"
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
        unread = {place: why for place, why in self._unread.items() if place not in self._mirrors}
        for place, mirror in self._mirrors.items():
            health = mirror.health()
            if not health.listed:
                unread[place] = health.problem
        if not unread:
            return Texts(where=_all_titles(self._places), is_absent=True, is_nvidias=True)
        if self._clock.monotonic_s() - self._since_s < UNREAD_AFTER_S or not all(unread.values()):
            # What is on its way is known soon.
            return self.topic.value
        why = f"it cannot be read: {next(iter(unread.values()))}"
        return Texts(where=_all_titles(unread), left=why, is_nvidias=True)


def _title(place: Place) -> str:
    return "ConfigMap {}/{}".format(*place)


def _all_titles(places: Iterable[Place]) -> str:
    return " and ".join(map(_title, places))
