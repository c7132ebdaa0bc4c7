"""What a node has of models, datasets and images: its folders, and what its container runtime lists."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from gpufleet.agent.data.data_folders import PROBLEM_CHARACTERS_MAX, FoundData, read_folders
from gpufleet.daemon.daemon_thread import in_daemon_thread
from gpufleet.kube.objects.node_data import DataEntry, DataFolder
from gpufleet.model.model_errors import WorldError
from gpufleet.model.visible import visible_line

IMAGES = "images"
"""The folder under which a problem of the runtime is reported: images have none."""


class ImageList(Protocol):
    """The container runtime."""

    async def list(self) -> Sequence[DataEntry]:
        """The images of the node. Raises WorldError."""
        ...


class NodeContents:
    """Reads both. ``runtime`` None reads the folders alone."""

    def __init__(self, folders: Sequence[Path], runtime: ImageList | None) -> None:
        self._folders = tuple(folders)
        self._runtime = runtime
        self._images: tuple[DataEntry, ...] = ()

    async def read(self) -> FoundData:
        """What is there now. A runtime that does not answer leaves the images as they were, and is named."""
        # In a thread of its own: a network disk that hangs must not stop the agent, nor its end.
        found = await in_daemon_thread(lambda: read_folders(self._folders))
        if self._runtime is None:
            return found
        folders = found.folders
        try:
            self._images = tuple(await self._runtime.list())
        except WorldError as error:
            problem = visible_line(str(error))[:PROBLEM_CHARACTERS_MAX]
            folders = (*folders, DataFolder(IMAGES, problem=problem))
        return msgspec.structs.replace(found, entries=(*found.entries, *self._images), folders=folders)
