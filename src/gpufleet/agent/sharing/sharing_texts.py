"""Where the configuration of sharing lies: in a file, in the folder of a mounted ConfigMap, or in the API.

Each source keeps the newest texts by key and goes on when what it reads is gone: to keep what was good
is ``sharing_source``'s business. Files are looked at every two seconds rather than watched: the kubelet
swaps the links of a mounted ConfigMap, editors replace files, and a look at a small file costs nothing.
"""

from pathlib import Path

import msgspec

from gpufleet.agent.state.topic import Topic
from gpufleet.devices.yaml_text import SIZE_MAX_BYTES
from gpufleet.files.regular import UnfitFileError, read_regular
from gpufleet.kube import resources
from gpufleet.kube.client import Client
from gpufleet.kube.clock import Clock
from gpufleet.kube.listing import Selection
from gpufleet.kube.mirror import Mirror
from gpufleet.kube.mirror_changes import Change
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.structure import Structure

# A link is read; the kubelet itself brings edits within a minute or two.
POLL_EVERY_S = 2.0
# A cluster has some kinds of nodes, not hundreds.
KEYS_MAX = 200
# The kubelet's name for what a mounted ConfigMap holds now; the keys beside it are links into it.
_MOUNTED = "..data"


class Texts(msgspec.Struct, frozen=True):
    """The configurations by key; a single file has the empty key.

    ``problem`` says why there are none; ``loaded`` is False as long as they were not read. ``left`` says why
    what is there is not for this agent: what is in force goes on. ``is_absent`` declares nothing, as there is
    nothing to read. ``is_nvidias`` says that they were found under a name of NVIDIA's guides.
    """

    by_key: dict[str, bytes] = {}
    where: str = ""
    problem: str = ""
    loaded: bool = True
    left: str = ""
    is_absent: bool = False
    is_nvidias: bool = False


NOT_LOADED = Texts(loaded=False)


class FileTexts:
    """A file, or a folder with a file for each key."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self.clock = clock
        self.topic = Topic(NOT_LOADED)

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            self.topic.publish(read_files(self.path))
            await self.clock.sleep(POLL_EVERY_S)


def read_files(path: Path) -> Texts:
    """What lies there now."""
    where = str(path)
    try:
        if not path.is_dir():
            return Texts({"": _read(path)}, where)
        mounted = path / _MOUNTED
        # One look at the link, so that all keys are of the same version of the ConfigMap.
        folder = mounted.resolve(strict=True) if mounted.is_symlink() else path
        names = sorted(one.name for one in folder.iterdir() if not one.name.startswith(".."))
        if len(names) > KEYS_MAX:
            return Texts(where=where, problem=f"{len(names)} files, more than {KEYS_MAX}")
        return Texts({name: _read(folder / name) for name in names if (folder / name).is_file()}, where)
    except UnfitFileError as problem:
        key = "" if problem.where == where else f"{Path(problem.where).name} "
        return Texts(where=where, problem=f"{key}{problem.problem}")
    except OSError as problem:
        return Texts(where=where, problem=f"cannot be read: {problem.strerror or type(problem).__name__}")


def _read(path: Path) -> bytes:
    """A file that is as long as a configuration may be."""
    return read_regular(path, SIZE_MAX_BYTES)


class ConfigMap(Structure, frozen=True):
    """A ConfigMap; what is not text in it is no configuration."""

    metadata: Metadata
    data: dict[str, str] | None = None


class ConfigMapTexts:
    """A ConfigMap, followed in the API."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self.namespace, self.name = namespace, name
        self.topic = Topic(NOT_LOADED)
        self.mirror = Mirror(
            client,
            resources.CONFIG_MAPS,
            msgspec.json.Decoder(ConfigMap),
            self._changed,
            namespace=namespace,
            selection=Selection(fields=f"metadata.name={name}"),
        )

    async def run(self) -> None:
        """Follow until cancelled."""
        await self.mirror.run()

    def _changed(self, _: Change[ConfigMap]) -> None:
        self.topic.publish(self._texts())

    def _texts(self) -> Texts:
        where = f"ConfigMap {self.namespace}/{self.name}"
        found = self.mirror.get(self.name, self.namespace)
        if found is None:
            return Texts(where=where, problem="there is no such ConfigMap")
        return Texts({key: text.encode() for key, text in (found.data or {}).items()}, where)


class OwnLabels:
    """The labels of this node, followed in the API; None as long as the node was not seen."""

    def __init__(self, client: Client, node: str) -> None:
        self.node = node
        self.topic: Topic[dict[str, str] | None] = Topic(None)
        self.mirror = Mirror(
            client,
            resources.NODES,
            msgspec.json.Decoder(_Labelled),
            self._changed,
            selection=Selection(fields=f"metadata.name={node}"),
        )

    async def run(self) -> None:
        """Follow until cancelled."""
        await self.mirror.run()

    def _changed(self, _: "Change[_Labelled]") -> None:
        found = self.mirror.get(self.node)
        if found is not None:
            self.topic.publish(found.metadata.labels)


class _Labelled(Structure, frozen=True):
    metadata: Metadata
