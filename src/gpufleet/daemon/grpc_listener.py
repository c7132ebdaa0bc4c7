"""Where a daemon serves gRPC: at an address of this machine, until it is cancelled.

``http_server`` does the same for HTTP. Who calls and what is answered is the service's affair.
"""

import asyncio

import grpc

from gpufleet.daemon.listening import address_of
from gpufleet.model.model_errors import InputError


class GrpcListener:
    """Serves at an address, which the option ``field`` names. Raises InputError where it is no address.

    ``close_s`` is how long calls under way may still take at the end.
    """

    def __init__(
        self, address: str, field: str, *, close_s: float, credentials: grpc.ServerCredentials | None = None
    ) -> None:
        host, port = address_of(address, field)
        self._address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._field = field
        self._close_s = close_s
        self._credentials = credentials
        self.port = 0
        """Where it listens, once ``listening`` is set."""
        self.listening = asyncio.Event()

    async def serve(self, server: grpc.aio.Server) -> None:
        """Serve until cancelled. Raises InputError where the address cannot be listened on."""
        try:
            self.port = self._add_port(server)
        except RuntimeError as error:
            expected = "a free port of this machine"
            raise InputError(
                "cannot be listened on", field=self._field, value=self._address, expected=expected
            ) from error
        await server.start()
        self.listening.set()
        try:
            await asyncio.Event().wait()
        finally:
            # A task of its own: one that is cancelled while it stops the server would leave it half stopped.
            await asyncio.shield(asyncio.create_task(server.stop(self._close_s)))

    def _add_port(self, server: grpc.aio.Server) -> int:
        if self._credentials is None:
            return server.add_insecure_port(self._address)
        return server.add_secure_port(self._address, self._credentials)
