"""Of any cluster, the scheduler, explain and the table of queues tell one cause for each pod that waits."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from gpufleet.cluster.engine_time import EngineTime
from gpufleet.cluster.facts import Facts
from gpufleet.cluster.pods.pod_entry import PodStage
from gpufleet.cluster.settings import Settings
from gpufleet.cluster.watching.mirrors import WATCHED
from gpufleet.cluster.watching.picture import take_picture
from gpufleet.engine.explanations.causes import all_causes, cause_of, cause_of_gang
from gpufleet.engine.instruction import GangUnschedulable, Unschedulable
from gpufleet.engine.policy import find_policy
from gpufleet.engine.preempt.by_name import find_search
from gpufleet.engine.scheduler import Engine
from gpufleet.explain.answer import WITHOUT_ENGINE, Answer
from gpufleet.explain.queue_inquiry import Wanted, ask_for_queues
from gpufleet.kube.client import Client
from gpufleet.model.identifiers import PodUid
from tests.explain.causes.test_causes import answer_in
from tests.scheduler.test_any_cluster import NODES, PODS, pod
from tests.scheduler.world import World, in_world

Object = dict[str, Any]
ENGINE_CAUSES = {one.name for one in all_causes()}
QUEUES = some.sampled_from(
    [
        {},
        {"team": {}},
        {"team": {"quotas": [{"resource": "gpu", "nominal": 2}]}},
        {"team": {"quotas": [{"resource": "gpu", "nominal": 0}]}, "other": {"state": "Held"}},
        {"team": {"parent": "gone"}, "other": {"quotas": [{"resource": "gpu", "nominal": 1}]}},
    ]
)


def told_by_refusals(facts: Facts) -> dict[str, str]:
    """The cause of each pod by name, by the refusals of an engine that is told everything."""
    engine = Engine(find_policy(facts.settings.policy), victims=find_search(facts.settings.victims))
    at_us = EngineTime(facts.clock).now_us()
    said = [one for number, wave in enumerate(facts.waves) for one in engine.step(at_us + number, wave)]
    by_gang = {one.gang: cause_of_gang(one) for one in said if isinstance(one, GangUnschedulable)}
    by_pod = {one.uid: cause_of(one.verdict) for one in said if isinstance(one, Unschedulable)}
    found = {}
    for uid, entry in facts.pods.entries.items():
        if entry.place is PodStage.PLACED:
            continue
        gang = None if entry.meaning is None else entry.meaning.gang
        told = by_pod.get(PodUid(uid)) if gang is None else by_gang.get(gang)
        if told is not None:
            found[entry.name.name] = told
    return found


async def causes_in_queues(world: World) -> dict[str, str]:
    """The causes of the table of queues, by the name of a pod or gang."""
    client = Client(world.transport("system:masters"), world.clock, world.random)
    answer = await ask_for_queues(client, Settings(identity="explain"), Wanted.AUTO, lambda _: None)
    rows = [row for queue in answer.queues for row in queue.waiting or ()]
    return {row.name: row.cause for row in rows}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(nodes=NODES, pods=PODS, queues=QUEUES, data=some.data())
def test_explain_queues_and_refusals_tell_one_cause(
    nodes: list[Object], pods: list[Object], queues: dict[str, Object], data: some.DataObject
) -> None:
    async def story(world: World) -> None:
        for name, spec in queues.items():
            kind = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue"}
            world.add({**kind, "metadata": {"name": name}, "spec": spec})
        for number, wanted in enumerate(nodes):
            world.node(f"n{number}", **wanted)
        for number, wanted in enumerate(pods):
            named = data.draw(some.sampled_from(["team", "other"])) if queues else "default"
            labels = {**wanted["labels"], "gpufleet.io/queue": named} if queues else wanted["labels"]
            pod(world, number, {**wanted, "labels": labels})
        await world.settle()
        client = Client(world.transport("system:masters"), world.clock, world.random)
        facts = Facts(await take_picture(client, WATCHED), Settings(identity="explain"), world.clock)
        refused, rows = told_by_refusals(facts), await causes_in_queues(world)
        for number in range(len(pods)):
            answer: Answer = await answer_in(world, f"p{number}")
            assert answer.cause in ENGINE_CAUSES | WITHOUT_ENGINE | {""}
            if f"p{number}" in refused:
                assert answer.cause == refused[f"p{number}"]
            gang = "" if answer.gang is None else answer.gang.name.rpartition("/")[2]
            row = rows.get(gang or f"p{number}")
            if row and answer.cause in ENGINE_CAUSES:
                assert answer.cause == row

    in_world(story)
