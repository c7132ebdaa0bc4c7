"""What the engine says of one pod, as a value; ``engine_run`` asks the engine.

Apart from the engine, which takes a second to load and is not needed for pods that run.
"""

import msgspec

from gpufleet.engine.explanations.explanation import Explanation
from gpufleet.model.identifiers import PodUid


class EngineAnswer(msgspec.Struct, frozen=True):
    """What the engine says of a waiting pod.

    ``waits_for`` are pods that leave the place that is kept or reserved for it; ``victims`` among them are
    told to end for its sake, or its gang's. ``protected`` would be told to if no disruption budget kept them.
    """

    explanation: Explanation
    waits_for: tuple[PodUid, ...] = ()
    victims: tuple[PodUid, ...] = ()
    protected: tuple[PodUid, ...] = ()
