"""A second registration of a driver, which says that it speaks an older version of the kubelet's API.

    with registered_as(cluster, "v1beta1.DRAPlugin"):
        ...

A kubelet calls the driver that registered last, so it speaks this version to the agent for the length of the
block: a kubelet before 1.34 knows no other.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from threading import Event
from typing import Any

import grpc

from gpufleet.agent.kubelet.kubelet_api import plugin_registration_pb2 as api
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.node.private_view import KUBELET

DRIVER = "gpu.nvidia.com"
SERVICE = "pluginregistration.Registration"
WAIT_S = 60.0


@contextmanager
def registered_as(cluster: LocalCluster, version: str) -> Iterator[None]:
    """The block begins when the kubelet took the registration."""
    # The kubelet takes a socket for another driver by its path alone.
    endpoint = f"{KUBELET}/plugins/{DRIVER}/old.sock"
    link = cluster.node.path(endpoint)
    taken = Event()

    def info(_: api.InfoRequest, __: Any) -> api.PluginInfo:
        return api.PluginInfo(type="DRAPlugin", name=DRIVER, endpoint=endpoint, supported_versions=[version])

    def told(status: api.RegistrationStatus, _: Any) -> api.RegistrationStatusResponse:
        assert status.plugin_registered, status.error
        taken.set()
        return api.RegistrationStatusResponse()

    handlers = {
        "GetInfo": _handler(info, api.InfoRequest),
        "NotifyRegistrationStatus": _handler(told, api.RegistrationStatus),
    }
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    socket = cluster.node.path(f"{KUBELET}/plugins_registry/old-reg.sock")
    link.symlink_to("dra.sock")
    try:
        server.add_insecure_port(f"unix:{socket}")
        server.start()
        assert taken.wait(WAIT_S), "the kubelet did not take the registration"
        yield
    finally:
        with suppress(FileNotFoundError):
            socket.unlink()
        server.stop(None)
        link.unlink()


def _handler(answer: Callable[[Any, Any], Any], request: Any) -> Any:
    return grpc.unary_unary_rpc_method_handler(
        answer, request.FromString, lambda message: message.SerializeToString()
    )
