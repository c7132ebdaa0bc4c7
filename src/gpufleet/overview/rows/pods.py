"""Lines of the view of pods: those that ask for GPUs, where each stands, what it uses, and why it waits."""

from gpufleet.explain.answer import State
from gpufleet.explain.queue_phrases import waiting_words
from gpufleet.kube.objects.pod import POD_SCHEDULED, Pod
from gpufleet.overview.rows.known import Known
from gpufleet.overview.rows.lines import PodLine
from gpufleet.overview.rows.pod_facts import MILLI, PodFact
from gpufleet.overview.rows.use import pod_use

WITHOUT_NODE = frozenset({State.WAITS, State.GATED, State.FOREIGN, State.LEAVES, State.HELD})


def pod_lines(known: Known, facts: list[PodFact]) -> list[PodLine]:
    """A line for each of the pods."""
    words = WaitingWords(known)
    return [pod_line(fact, known, words) for fact in facts if known.shows(fact.pod.metadata.namespace)]


class WaitingWords:
    """Why pods wait: what the engine says now, else what a scheduler wrote into the pod last."""

    def __init__(self, known: Known) -> None:
        engine_report = known.engine_report
        self._held = {} if engine_report is None else engine_report.held
        self._causes = {} if engine_report is None else engine_report.causes
        self._waiting = {} if engine_report is None else engine_report.waiting()
        self._gang_of = {
            (gang.namespace, pod): (gang.namespace, gang.name)
            for gang in (() if engine_report is None else engine_report.gangs)
            for pod in gang.pods
        }

    def line(self, fact: PodFact) -> PodLine:
        """The line of a pod without a node, without its use."""
        pod = fact.pod
        namespace, name = pod.metadata.namespace, pod.metadata.name
        state, cause, why, position, queue = fact.state, "", written(pod), None, fact.queue
        held = self._held.get(pod.metadata.uid)
        if state is State.WAITS and held is not None:
            state, cause, why = State.HELD, "held", held
        gang = self._gang_of.get((namespace, name))
        key = ("pod", namespace, name) if gang is None else ("gang", *gang)
        if state is State.WAITS:
            cause = self._causes.get(pod.metadata.uid, "")
        if state is State.WAITS and key in self._waiting:
            queue, row = self._waiting[key]
            position, cause = row.position, row.cause or row.reason
            why = why or waiting_words(row)
        return PodLine(
            namespace,
            name,
            state.value,
            queue=queue,
            gpus=_gpus(fact),
            created=pod.metadata.creation_timestamp or "",
            position=position,
            cause=cause or ("" if state is State.WAITS else state.value),
            why=why,
        )


def written(pod: Pod) -> str:
    """What a scheduler wrote into the pod last about why it waits; "" for nothing."""
    condition = pod.condition(POD_SCHEDULED)
    return (
        condition.message or condition.reason if condition is not None and condition.status == "False" else ""
    )


def pod_line(fact: PodFact, known: Known, words: WaitingWords) -> PodLine:
    """The line of one pod."""
    pod = fact.pod
    if fact.state in WITHOUT_NODE:
        return words.line(fact)
    key, node = (pod.metadata.namespace, pod.metadata.name), pod.spec.node_name
    use = pod_use(key, known.use.get(node), known.before.get(node))
    return PodLine(
        *key,
        fact.state.value,
        node,
        fact.queue,
        _gpus(fact),
        use.used_ratio,
        use.memory_used_bytes,
        use.power_watts,
        pod.metadata.creation_timestamp or "",
    )


def _gpus(fact: PodFact) -> float | None:
    return None if fact.gpus_milli is None else fact.gpus_milli / MILLI
