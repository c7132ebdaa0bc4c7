"""Why work of a scenario waits, in the words that people are told."""

from gpufleet.engine.explanations.sentences import explain, explain_gang
from gpufleet.model.identifiers import GangName, PodUid
from gpufleet.scenario.stage import Stage


def why_waiting(stage: Stage, uid: PodUid) -> str:
    """The reason of a pod that has no place; "" if nothing stands in its way."""
    pod = stage.pods[uid]
    if pod.gang is not None:
        said = stage.engine.explain_gang(GangName(pod.gang))
        return "" if said is None else explain_gang(said, pod.shape)
    verdict = stage.engine.explain(uid)
    return "" if verdict is None else explain(verdict, pod.shape)
