"""A free port that stays ours until the server that shall have it listens.

Asking the kernel for a free port and letting go of it again is a race with every other program. Here the
socket is kept: bound with SO_REUSEPORT and never listening, it receives nothing, and only a program of the
same user that sets the same option may bind beside it (kube-apiserver with `--permit-port-sharing`). The
kernel never hands out such a port to a program that asks for a free one.
"""

import socket

LOOPBACK = "127.0.0.1"


def free_port() -> int:
    """A port that was free a moment ago, for a server that tries again until it has it."""
    with socket.create_server((LOOPBACK, 0)) as server:
        number: int = server.getsockname()[1]
    return number


class HeldPort:
    """A TCP port on loopback, ours until `release`."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        # kube-apiserver binds beside this with the same option: the port is at no moment free for another.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._socket.bind((LOOPBACK, 0))

    @property
    def number(self) -> int:
        """The port's number."""
        number: int = self._socket.getsockname()[1]
        return number

    def fileno(self) -> int:
        """The file descriptor, for a process that shall hold the port from now on."""
        return self._socket.fileno()

    def release(self) -> None:
        """Let go of it here; a process that inherited it still holds it."""
        self._socket.close()
