"""Why work of a scenario waits, in the words that people are told."""

from gpufleet.engine.explanations.sentences import explain, explain_gang
from gpufleet.model.identifiers import GangName, PodUid
from gpufleet.scenario.scenario_engine import ScenarioEngine


def why_waiting(scenario_engine: ScenarioEngine, uid: PodUid) -> str:
    """The reason of a pod that has no place; "" if nothing stands in its way."""
    pod = scenario_engine.pods[uid]
    if pod.gang is not None:
        said = scenario_engine.engine.explain_gang(GangName(pod.gang))
        return "" if said is None else explain_gang(said, pod.shape)
    verdict = scenario_engine.engine.explain(uid)
    return "" if verdict is None else explain(verdict, pod.shape)
