"""A port of the node that a pod takes for itself."""

import msgspec

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - the meaning of an empty hostIP, not an address we bind


class HostPort(msgspec.Struct, frozen=True, cache_hash=True, order=True):
    """Port, protocol and address. Two conflict if they share port and protocol, and an address."""

    port: int
    protocol: str = "TCP"
    address: str = ANY_ADDRESS

    def conflicts(self, other: "HostPort") -> bool:
        """True if both cannot be open on one node."""
        same_port = (self.port, self.protocol) == (other.port, other.protocol)
        return same_port and (self.address == other.address or ANY_ADDRESS in (self.address, other.address))
