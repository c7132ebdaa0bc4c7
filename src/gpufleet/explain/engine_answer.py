"""What the engine says of one pod, as a value; ``engine_run`` asks the engine.

Apart from the engine, which takes a second to load and is not needed for pods that run.
"""

import msgspec

from gpufleet.engine.instruction import Verdict
from gpufleet.model.identifiers import NodeName, PodUid

ReasonsByNode = dict[NodeName, tuple[str, ...]]


class EngineAnswer(msgspec.Struct, frozen=True):
    """What the engine says of a waiting pod.

    ``node`` is set if there is room: the pod would be placed there now. Otherwise ``verdict`` and ``by_node``
    say why not. ``ahead`` are waiting pods that would get the room in its place. ``kept`` is the node that is
    kept for it until the pods ``waits_for`` have ended; ``victims`` among them are told to end for its sake,
    or its gang's; without ``kept`` it holds a reservation until they have. ``protected`` would be told to, if
    no disruption budget kept them. ``placeable`` counts the members of its gang that would fit at once, None
    without one; ``short_role`` names the role that is short of members or room.
    """

    node: NodeName | None = None
    verdict: Verdict | None = None
    by_node: ReasonsByNode = {}
    ahead: tuple[PodUid, ...] = ()
    kept: NodeName | None = None
    waits_for: tuple[PodUid, ...] = ()
    victims: tuple[PodUid, ...] = ()
    protected: tuple[PodUid, ...] = ()
    placeable: int | None = None
    short_role: str = ""
