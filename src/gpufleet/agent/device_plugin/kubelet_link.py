"""The way to the kubelet: its folder of sockets, the Register call, and a socket for each resource.

A kubelet that starts makes its own socket anew, so the inode of that socket tells one start from another.
"""

import re
from pathlib import Path

import grpc

from gpufleet.agent.device_plugin.plugin_server import PluginServer
from gpufleet.agent.device_plugin.registration import ResourceServer, RunningKubelet
from gpufleet.agent.device_plugin.unit_allocator import Allocator
from gpufleet.agent.kubelet.kubelet_api import device_plugin_pb2 as api
from gpufleet.agent.state.state_errors import KubeletError

DEVICE_PLUGINS = Path("/var/lib/kubelet/device-plugins")
KUBELET_SOCKET = "kubelet.sock"
VERSION = "v1beta1"
# The kubelet calls back before it answers, over sockets of the node.
REGISTER_LIMIT_S = 5.0

# Channels to one address share what they know of it, also that it was gone a moment ago and is not to be
# tried for a while; a kubelet that has just come back must be tried at once.
ANEW = (("grpc.use_local_subchannel_pool", 1),)


class GrpcKubeletLink:
    """The kubelet of the machine; ``folder`` is where kubelet and device plugins find each other."""

    def __init__(self, folder: Path = DEVICE_PLUGINS) -> None:
        self.folder = folder

    def running_kubelet(self) -> RunningKubelet | None:
        """As KubeletLink."""
        try:
            status = (self.folder / KUBELET_SOCKET).stat()
        except OSError:
            return None
        # A kubelet that restarts makes its socket anew, under an inode that may be used again at another
        # time.
        return status.st_ino, status.st_ctime_ns

    def server(self, allocator: Allocator) -> PluginServer:
        """As KubeletLink."""
        return PluginServer(allocator, self.folder / socket_name(allocator.resource))

    async def register(self, server: ResourceServer) -> None:
        """As KubeletLink."""
        resource = server.allocator.resource
        request = api.RegisterRequest(
            version=VERSION,
            endpoint=socket_name(resource),
            resource_name=resource,
            options=api.DevicePluginOptions(
                pre_start_required=server.allocator.prepares,
                get_preferred_allocation_available=server.allocator.prefers,
            ),
        )
        async with grpc.aio.insecure_channel(f"unix:{self.folder / KUBELET_SOCKET}", options=ANEW) as channel:
            call = channel.unary_unary(
                f"/{VERSION}.Registration/Register",
                request_serializer=api.RegisterRequest.SerializeToString,
                response_deserializer=api.Empty.FromString,
            )
            try:
                await call(request, timeout=REGISTER_LIMIT_S)
            except grpc.aio.AioRpcError as error:
                problem = f"{resource} was not registered: {error.code().name} {error.details()}"
                raise KubeletError(problem) from error


def socket_name(resource: str) -> str:
    """A resource's socket, another one for each; short, as a socket's path must be."""
    return f"gpufleet-{re.sub(r'[^a-z0-9.]+', '-', resource.lower())}.sock"
