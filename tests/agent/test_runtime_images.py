"""The container runtime's images: what it lists becomes entries, and what it refuses an error."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import grpc
import pytest

from gpufleet.agent.kubelet.kubelet_api import cri_images_pb2 as api
from gpufleet.agent.kubelet.runtime_images import RuntimeImages
from gpufleet.agent.state.state_errors import KubeletError
from gpufleet.kube.objects.node_data import DataEntry

GIB = 1 << 30
DIGEST = f"sha256:{'c' * 64}"
Value = TypeVar("Value")


class SmallRuntime:
    """Answers the two calls from memory."""

    def __init__(self) -> None:
        self.pulled: list[str] = []
        self.images = [
            api.Image(
                id="sha256:1",
                repo_tags=["docker.io/org/big:1", "docker.io/org/big:2"],
                repo_digests=[f"docker.io/org/big@{DIGEST}"],
                size=5 * GIB,
            ),
            api.Image(id="sha256:2", repo_tags=["docker.io/library/small:1"], size=1 << 20),
        ]

    async def list(self, _: api.ListImagesRequest, __: object) -> api.ListImagesResponse:
        """All of them."""
        return api.ListImagesResponse(images=self.images)

    async def pull(self, request: api.PullImageRequest, context: Any) -> api.PullImageResponse:
        """One more, unless the registry has none of that name."""
        self.pulled.append(request.image.image)
        if "gone" in request.image.image:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such image")
        return api.PullImageResponse(image_ref="sha256:3")


def with_runtime(folder: Path, story: Callable[[SmallRuntime, RuntimeImages], Awaitable[Value]]) -> Value:
    """Serve a runtime on a socket, and tell a story with it."""

    async def run() -> Value:
        runtime, server = SmallRuntime(), grpc.aio.server()
        calls: dict[str, tuple[Any, Any]] = {
            "ListImages": (runtime.list, api.ListImagesRequest),
            "PullImage": (runtime.pull, api.PullImageRequest),
        }
        handlers: dict[str, Any] = {
            name: grpc.unary_unary_rpc_method_handler(
                answer,
                request_deserializer=kind.FromString,
                response_serializer=lambda it: it.SerializeToString(),
            )
            for name, (answer, kind) in calls.items()
        }
        service = grpc.method_handlers_generic_handler("runtime.v1.ImageService", handlers)
        server.add_generic_rpc_handlers((service,))
        server.add_insecure_port(f"unix:{folder / 's'}")
        await server.start()
        try:
            return await story(runtime, RuntimeImages(folder / "s"))
        finally:
            await server.stop(None)

    return asyncio.run(run())


def test_large_images_are_listed_by_each_of_their_names(tmp_path: Path) -> None:
    assert with_runtime(tmp_path, lambda _, images: images.list()) == (
        DataEntry("image", "docker.io/org/big:1", 5 * GIB, True, ""),
        DataEntry("image", "docker.io/org/big:2", 5 * GIB, True, ""),
        DataEntry("image", "docker.io/org/big", 5 * GIB, True, "", DIGEST),
    )


def test_a_pull_says_the_name_alone_and_a_refusal_is_an_error(tmp_path: Path) -> None:
    async def story(runtime: SmallRuntime, images: RuntimeImages) -> list[str]:
        await images.pull("docker.io/org/new:1")
        with pytest.raises(KubeletError, match="refuses PullImage: NOT_FOUND no such image"):
            await images.pull("docker.io/org/gone:1")
        return runtime.pulled

    assert with_runtime(tmp_path, story) == ["docker.io/org/new:1", "docker.io/org/gone:1"]


def test_a_runtime_that_is_away_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KubeletError, match="refuses ListImages: UNAVAILABLE"):
        asyncio.run(RuntimeImages(tmp_path / "none").list())
