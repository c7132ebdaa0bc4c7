"""What one person may see of a cluster. Pure; ``login`` finds it out, and ``rows`` leave the rest out."""

import msgspec

from gpufleet.model.phrases import listed
from gpufleet.web.documents import About

NEEDED = "the ClusterRole gpufleet-explain has it"


class Rights(msgspec.Struct, frozen=True):
    """The namespaces whose pods are shown, None for all; and whether nodes, devices, queues and projects are.

    Projects are a view of their own, so that who may not see them misses nothing of the others.
    """

    namespaces: frozenset[str] | None = None
    nodes: bool = True
    devices: bool = True
    queues: bool = True
    projects: bool = True

    def sees(self, namespace: str) -> bool:
        """Whether objects of a namespace are shown."""
        return self.namespaces is None or namespace in self.namespaces

    @property
    def sees_all(self) -> bool:
        """Whether nothing is left out: such a person may have what tells of the whole cluster."""
        return self.namespaces is None and self.nodes and self.devices and self.queues

    def hidden(self) -> tuple[str, ...]:
        """What is not shown, in sentences."""
        found = []
        if self.namespaces is not None:
            found.append(f"pods of other namespaces: you may not list pods of the whole cluster; {NEEDED}")
        kinds = [
            name
            for name, shown in (
                ("nodes", self.nodes),
                ("nodedevices", self.devices),
                ("fleetqueues", self.queues),
            )
            if not shown
        ]
        if kinds:
            found.append(f"{listed(kinds)}: you may not list them; {NEEDED}")
        return tuple(found)


ALL = Rights()
"""Nothing is left out: of what is read with a person's own rights, all is theirs to see."""


def about(
    rights: Rights, version: str, *, user: str = "", cluster: str = "", can_log_out: bool = False
) -> About:
    """What a person is told of themselves."""
    return About(
        version,
        user,
        cluster,
        None if rights.namespaces is None else tuple(sorted(rights.namespaces)),
        rights.nodes,
        rights.queues,
        rights.sees_all,
        can_log_out,
        rights.hidden(),
    )
