"""The engine's words for a waiting pod, with the names of the features where it is for want of one.

The engine knows features by name only; ``kube.codec.features``, ``attachments`` and ``cuda`` named them.
"""

from gpufleet.engine.explanations.sentences import explain, explain_gang
from gpufleet.engine.instruction import GangUnschedulable, Verdict
from gpufleet.engine.node_reasons import cuda_driver, feature
from gpufleet.model.shape import Shape

GANG_MALFORMED = "gang-malformed"
"""The cause by which members wait that contradict each other, which the engine is not asked about."""

OF_FEATURES = frozenset({feature.REASON.name, cuda_driver.REASON.name})
"""The reasons of nodes that lack a feature."""


def words_for_pod(verdict: Verdict, shape: Shape) -> str:
    """Why a pod of the shape fits nowhere."""
    return explain(verdict, shape) + _features(verdict, shape)


def words_for_gang(said: GangUnschedulable, shape: Shape | None) -> str:
    """Why a gang cannot start; ``shape`` is that of the first member that does not fit."""
    words = explain_gang(said, shape)
    return words if said.verdict is None or shape is None else words + _features(said.verdict, shape)


def _features(verdict: Verdict, shape: Shape) -> str:
    if OF_FEATURES.isdisjoint(verdict.first_reasons) or not shape.features:
        return ""
    return f" (features needed: {', '.join(shape.features)})"
