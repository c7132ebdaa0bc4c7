"""The network of one real node: a bridge, the addresses on it, and the number that names all of it.

Every real node of a machine has a number. The process that holds the number owns the devices and control
groups that are named after it, also what an earlier holder left. It is held as a socket in the abstract
namespace, which the kernel gives to one process at a time and takes back when the last holder is dead.

Pods get addresses of the bridge's network. The address of the service `kubernetes` stands on the bridge too,
where `forwarder` passes it on to the API server: so in-cluster clients work without kube-proxy, and no rule
of a packet filter and no setting of the kernel is touched. Pods do not reach beyond the machine.
"""

import ipaddress
import os
import shutil
import socket
import subprocess
from pathlib import Path

import msgspec

from gpufleet.files.regular import read_kernel_file
from gpufleet.localkube.processes.process_errors import ClusterError

NUMBERS = 200
"""The number is the third part of the node's addresses, so it must stay below 256."""

ROUTES = Path("/proc/net/route")
NARROW_PREFIX = 16
"""A route to a network with this prefix or a longer one is in use and collides; a wider one (a whole VPN)
does not.
"""


class NodeNetwork(msgspec.Struct, frozen=True):
    """What the number of a node says: names and addresses."""

    number: int

    @property
    def bridge(self) -> str:
        """The network device to which all pods are connected."""
        return f"gpufleet{self.number}"

    @property
    def bridge_mac(self) -> str:
        """The bridge's hardware address, of the range for local administration, which no maker assigns."""
        return f"02:67:66:00:00:{self.number:02x}"

    @property
    def control_group(self) -> str:
        """The control group below which all pods are."""
        return f"gpufleet{self.number}"

    @property
    def pods(self) -> str:
        """The addresses of pods."""
        return f"10.213.{self.number}.0/24"

    @property
    def node_address(self) -> str:
        """The node's own address, on the bridge."""
        return f"10.213.{self.number}.1"

    @property
    def services(self) -> str:
        """The addresses of services."""
        return f"10.214.{self.number}.0/24"

    @property
    def api_address(self) -> str:
        """The address of the service `kubernetes`, the first of all services."""
        return f"10.214.{self.number}.1"


class HeldNetwork:
    """A network that is ours until `release`; a process that inherits the file descriptor holds it too."""

    def __init__(self, network: NodeNetwork, held: socket.socket) -> None:
        self.network = network
        self._socket = held

    @classmethod
    def take_free(cls) -> "HeldNetwork":
        """A network that no process holds and that collides with no route of the machine."""
        taken = _routes()
        for number in range(NUMBERS):
            network = NodeNetwork(number)
            if any(_collides(network, route, device) for route, device in taken):
                continue
            held = cls.take(network)
            if held is not None:
                return held
        raise ClusterError(f"all {NUMBERS} networks for real nodes are taken; `gpufleet down` frees one")

    @classmethod
    def take(cls, network: NodeNetwork) -> "HeldNetwork | None":
        """Take this network; None if another process holds it."""
        held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            # A name in the abstract namespace goes with the last process that holds it, however that ends.
            held.bind(f"\0gpufleet-node-{network.number}")
        except OSError:
            held.close()
            return None
        return cls(network, held)

    def fileno(self) -> int:
        """The file descriptor, for a process that shall hold the network from now on."""
        return self._socket.fileno()

    def release(self) -> None:
        """Let go of it here."""
        self._socket.close()


def create_bridge(network: NodeNetwork) -> None:
    """Make the bridge with its addresses; what is left of an earlier one goes first.

    Without a hardware address of its own a bridge takes the lowest of the pods' devices, and another one when
    that pod ends: the others would send to the old one for half a minute, in vain.
    """
    remove_bridge(network)
    ip("link", "add", network.bridge, "address", network.bridge_mac, "type", "bridge")
    ip("address", "add", f"{network.node_address}/24", "dev", network.bridge)
    ip("address", "add", f"{network.api_address}/32", "dev", network.bridge)
    ip("link", "set", network.bridge, "up")


def remove_bridge(network: NodeNetwork) -> None:
    """Remove the bridge and the devices that connect pods to it, if they are there."""
    bridge = Path("/sys/class/net") / network.bridge
    if not bridge.exists():
        return
    for device in (bridge / "brif").iterdir():
        # The kernel takes them away with the pods' namespaces, but at its own time.
        ip("link", "delete", device.name, may_fail=True)
    ip("link", "delete", network.bridge)


def ip(*arguments: str, may_fail: bool = False) -> None:
    """Run `ip`; ClusterError with its words where it fails."""
    program = shutil.which("ip", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if program is None:
        raise ClusterError("a real node needs the program ip; install the package iproute2")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0 and not may_fail:
        raise ClusterError(f"ip {' '.join(arguments)} failed: {done.stderr.strip()}")


def _routes() -> list[tuple[ipaddress.IPv4Network, str]]:
    """Where the machine sends packets, and through which device."""
    found = []
    for line in read_kernel_file(ROUTES).decode("ascii").splitlines()[1:]:
        device, destination, _, _, _, _, _, mask = line.split()[:8]
        network = ipaddress.IPv4Network((_little_endian(destination), str(_little_endian(mask))))
        found.append((network, device))
    return found


def _little_endian(word: str) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(bytes.fromhex(word)[::-1])


def _collides(network: NodeNetwork, route: ipaddress.IPv4Network, device: str) -> bool:
    if route.prefixlen < NARROW_PREFIX or device == network.bridge:
        return False
    ours = (ipaddress.IPv4Network(network.pods), ipaddress.IPv4Network(network.services))
    return any(route.overlaps(one) for one in ours)
