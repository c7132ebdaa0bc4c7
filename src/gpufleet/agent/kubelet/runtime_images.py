"""Asks the container runtime which images the node has, and to pull one (CRI, ``runtime.v1.ImageService``).

The socket gives every right on the machine, so this module makes these two calls and no others, and what it
pulls comes from registries that the operator allows (``agent.data.image_puller``).
"""

from pathlib import Path
from typing import Any

import grpc

from gpufleet.agent.kubelet.kubelet_api import cri_images_pb2 as api
from gpufleet.agent.state.state_errors import KubeletError
from gpufleet.kube.objects.node_data import IMAGE, DataEntry

LIST_S = 20.0
"""The runtime reads its own store."""

PULL_S = 3600.0
"""A large image over a slow line; a pull that stands still is given up by the runtime itself."""

MAXIMUM_BYTES = 16 * 1024 * 1024
"""As much as a kubelet takes of a runtime."""

BYTES_LEAST = 64 << 20
"""Smaller images say nothing about how soon a pod is ready, and would fill the report."""

NAME_CHARACTERS_MAX = 253
"""What NodeData takes for a name."""

OPTIONS = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", MAXIMUM_BYTES))


class RuntimeImages:
    """The runtime behind one socket."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def list(self) -> tuple[DataEntry, ...]:
        """The large images of the node, by each of their names. Raises KubeletError."""
        answer: api.ListImagesResponse = await self._call(
            "ListImages", api.ListImagesRequest(), api.ListImagesResponse, LIST_S
        )
        return tuple(entry for image in answer.images for entry in _entries(image))

    async def pull(self, name: str) -> None:
        """Pull an image, as anyone may. Raises KubeletError."""
        request = api.PullImageRequest(image=api.ImageSpec(image=name))
        await self._call("PullImage", request, api.PullImageResponse, PULL_S)

    async def _call(self, method: str, request: Any, answer: type[Any], limit_s: float) -> Any:
        async with grpc.aio.insecure_channel(f"unix:{self._socket}", options=OPTIONS) as channel:
            call = channel.unary_unary(
                f"/runtime.v1.ImageService/{method}",
                request_serializer=type(request).SerializeToString,
                response_deserializer=answer.FromString,
            )
            try:
                return await call(request, timeout=limit_s)
            except grpc.aio.AioRpcError as error:
                problem = f"the container runtime refuses {method}: {error.code().name} {error.details()}"
                raise KubeletError(problem) from error


def _entries(image: api.Image) -> list[DataEntry]:
    """An entry for each tag, and one for each digest."""
    if image.size < BYTES_LEAST:
        return []
    digests = (one.partition("@") for one in image.repo_digests)
    named = [(tag, "") for tag in image.repo_tags] + [(name, digest) for name, _, digest in digests]
    return [
        DataEntry(IMAGE, name, image.size, True, "", digest)
        for name, digest in named
        if 0 < len(name) <= NAME_CHARACTERS_MAX
    ]
