"""What agents, engines and the scheduler say, and why something is unknown."""

import asyncio
from collections.abc import Mapping

import pytest

from gpufleet.metrics.catalogue import BY_NAME, From
from gpufleet.metrics.cluster_objects import ClusterObjects
from gpufleet.metrics.reading import ObjectKey
from gpufleet.metrics.served_values import FoundValues, NoValueError, ServedValues
from gpufleet.metrics.sources.agents import Agents
from gpufleet.metrics.sources.engines import Engines
from gpufleet.metrics.sources.queues import Queues
from gpufleet.metrics.wire.questions import AboutObjects
from tests.metrics.cluster_at_hand import (
    NAMESPACE,
    Clock,
    PageTexts,
    agent,
    engine,
    objects,
    pages,
    pod,
)
from tests.metrics.values_at_hand import NOW_S

USED, MEMORY, POWER = (
    f"gpufleet_pod_gpu_{one}" for one in ("used_ratio", "memory_used_bytes", "power_watts")
)
BUSY = "gpufleet_node_gpu_busy_ratio"
WAITING = "vllm:num_requests_waiting"
ONE, NODE = ObjectKey("pods", "default", "one"), ObjectKey("nodes", "", "node-0")
AGENT_URL = "http://10.0.1.1:9400/metrics?newest"
"""The agent reads its GPUs anew before it answers."""
AGENT_PAGE = """
gpufleet_gpu_sample_age_seconds{uuid="A",node="node-0"} 4
gpufleet_gpu_sample_age_seconds{uuid="B",node="node-0"} 7
gpufleet_gpu_busy_ratio{uuid="A"} 0.5
gpufleet_gpu_busy_ratio{uuid="B"} 0.1
gpufleet_gpu_power_watts{uuid="A"} 300
gpufleet_gpu_power_watts{uuid="B"} 100
gpufleet_pod_gpu_held_ratio{namespace="default",pod="one",uuid="A"} 1
gpufleet_pod_gpu_used_ratio{namespace="default",pod="one",uuid="A"} 0.5
gpufleet_pod_gpu_memory_used_bytes{namespace="default",pod="one",uuid="A"} 1000
gpufleet_pod_gpu_energy_joules_total{namespace="default",pod="one",uuid="A"} 5000
gpufleet_pod_gpu_held_ratio{namespace="default",pod="half",uuid="B",mig_id="1"} 0.5
gpufleet_pod_gpu_energy_joules_total{namespace="default",pod="half",uuid="B",mig_id="1"} 700
"""


def agents(known: ClusterObjects, texts: PageTexts, clock: Clock, *, on_nodes: bool = False) -> Agents:
    return Agents(known, pages(texts, clock), namespace=NAMESPACE, scheme="http", on_nodes=on_nodes)


def of_agents(name: str, *keys: ObjectKey, page: str | None = AGENT_PAGE) -> Mapping[ObjectKey, FoundValues]:
    """What is found out from the agent of the one node, on which two pods are."""
    known = objects([agent("node-0", "10.0.1.1"), pod("one"), pod("half"), pod("other", node="node-1")])
    texts = PageTexts({} if page is None else {AGENT_URL: page})
    return asyncio.run(agents(known, texts, Clock()).of_objects(BY_NAME[name], keys))


@pytest.mark.parametrize(("name", "amount"), [(USED, 0.5), (MEMORY, 1000), (POWER, 300)])
def test_a_pods_value_is_as_old_as_the_measurement_of_its_gpu(name: str, amount: float) -> None:
    (reading,) = of_agents(name, ONE)[ONE].readings
    assert (reading.amount, NOW_S - reading.at_s) == (amount, 4)


def test_a_node_has_a_reading_of_each_gpu() -> None:
    found = of_agents(BUSY, NODE)[NODE].readings
    assert [(one.amount, NOW_S - one.at_s) for one in found] == [(0.5, 4), (0.1, 7)]


def test_a_gpu_that_tells_no_age_makes_the_pod_unknown() -> None:
    page = AGENT_PAGE.replace('gpufleet_gpu_sample_age_seconds{uuid="A",node="node-0"} 4\n', "")
    found = of_agents(USED, ONE, page=page)[ONE]
    assert (found.readings, found.problem) == ((), "one of its GPUs tells nothing of it")


@pytest.mark.parametrize("value", ["7", "-0.1", "1e300", "NaN", "+Inf"])
def test_a_value_that_no_gpu_can_have_is_not_served(value: str) -> None:
    """A recording rule or a relabelling may put per cent, or anything, under the name."""
    used = 'gpufleet_pod_gpu_used_ratio{namespace="default",pod="one",uuid="A"}'
    page = AGENT_PAGE.replace(f"{used} 0.5", f"{used} {value}")
    found = of_agents(USED, ONE, page=page)[ONE]
    assert (found.readings, found.problem) == ((), "one of its GPUs tells nothing of it")


def test_the_power_of_a_part_follows_from_its_energy() -> None:
    half = ObjectKey("pods", "default", "half")
    texts, clock = PageTexts({AGENT_URL: AGENT_PAGE}), Clock()
    source = agents(objects([agent("node-0", "10.0.1.1"), pod("half")]), texts, clock)

    async def story() -> list[FoundValues]:
        first = (await source.of_objects(BY_NAME[POWER], [half]))[half]
        clock.now_s += 10
        texts.pages[AGENT_URL] = AGENT_PAGE.replace("} 700", "} 1200")
        return [first, (await source.of_objects(BY_NAME[POWER], [half]))[half]]

    first, second = asyncio.run(story())
    assert (first.readings, first.problem) == ((), "one of its GPUs tells nothing of it")
    assert [one.amount for one in second.readings] == [50.0]


@pytest.mark.parametrize(
    ("key", "page", "problem"),
    [
        (ONE, None, "the agent of node node-0 cannot be read: its page of metrics cannot be read"),
        (ONE, "<html>", "the agent of its node knows of no GPU that it holds"),
        (ONE, 'gpufleet_gpu_busy_ratio{uuid="A" 0', "not a page of metrics"),
        (ObjectKey("pods", "default", "other"), AGENT_PAGE, "the agent of node node-1 cannot be read"),
    ],
)
def test_why_a_pod_is_unknown(key: ObjectKey, page: str | None, problem: str) -> None:
    found = of_agents(USED, key, page=page)[key]
    assert found.readings == ()
    assert problem in found.problem


def test_a_node_is_asked_itself_where_that_is_wanted() -> None:
    address = {"type": "InternalIP", "address": "fd00::7"}
    node = {
        "metadata": {"name": "node-0", "uid": "n", "resourceVersion": "1"},
        "status": {"addresses": [address]},
    }
    texts = PageTexts({"http://[fd00::7]:9400/metrics?newest": AGENT_PAGE})
    known = objects([pod("one")], [node])
    for on_nodes, amounts in ((True, 1), (False, 0)):
        source = agents(known, texts, Clock(), on_nodes=on_nodes)
        found = asyncio.run(source.of_objects(BY_NAME[USED], [ONE]))
        assert len(found[ONE].readings) == amounts


def test_questions_at_once_cause_one_read() -> None:
    texts, clock = PageTexts({AGENT_URL: AGENT_PAGE}), Clock()
    source = agents(objects([agent("node-0", "10.0.1.1"), pod("one")]), texts, clock)

    async def story() -> None:
        await asyncio.gather(*(source.of_objects(BY_NAME[USED], [ONE]) for _ in range(5)))
        assert texts.read == [AGENT_URL]
        clock.now_s += 3
        await source.of_objects(BY_NAME[USED], [ONE])
        assert texts.read == [AGENT_URL] * 2

    asyncio.run(story())


VLLM = f'{WAITING}{{model_name="a",engine="0"}} 3\n{WAITING}{{model_name="a",engine="1"}} 4\n'


def test_an_engine_is_read_where_its_annotations_say() -> None:
    known = objects([engine("one", "10.0.0.5")])
    source = Engines(known, pages(PageTexts({"http://10.0.0.5:8000/metrics": VLLM}), Clock()))
    found = asyncio.run(source.of_objects(BY_NAME[WAITING], [ONE]))
    assert [one.amount for one in found[ONE].readings] == [3, 4]


@pytest.mark.parametrize(
    "written",
    [
        pod("one", address="10.0.0.5"),
        pod("one", address="10.0.0.5", annotations={"gpufleet.io/metrics-port": "http"}),
        pod("one", address="10.0.0.5", annotations={"gpufleet.io/metrics-port": "80000"}),
        pod("one", address="10.0.0.5", annotations={"gpufleet.io/metrics-port": "000080999"}),
        pod("one", address="10.0.0.5", annotations={"gpufleet.io/metrics-port": "000080" + "0" * 5000}),
        pod("one", address="", annotations={"gpufleet.io/metrics-port": "8000"}),
        engine("one", "10.0.0.5", host_network=True),
    ],
)
def test_a_pod_that_says_no_place_is_not_read(written: dict[str, object]) -> None:
    texts = PageTexts()
    found = asyncio.run(
        Engines(objects([written]), pages(texts, Clock())).of_objects(BY_NAME[WAITING], [ONE])
    )
    assert (found, texts.read) == ({}, [])


@pytest.mark.parametrize(
    ("page", "why"),
    [
        (f"{WAITING} 3 1000\n", "its value is .* s old"),
        (f'{WAITING}{{engine="0"}} 3\n{WAITING}{{engine="1"}} NaN\n', "its value is no number"),
        (f"{WAITING} 3\n{WAITING} 4\n", f"a series of {WAITING} is there twice"),
        ("<html>Please log in</html>", f"its page of metrics has no {WAITING}"),
    ],
    ids=["with a time of 1970", "a part that is no number", "twice", "of a login"],
)
def test_a_page_that_cannot_be_believed_is_no_number(page: str, why: str) -> None:
    known, clock = objects([engine("one", "10.0.0.5")]), Clock()
    engines = Engines(known, pages(PageTexts({"http://10.0.0.5:8000/metrics": page}), clock))
    values = ServedValues(BY_NAME, known, {From.ENGINE: engines}, clock, old_after_s=25.0)
    asked = AboutObjects("v1beta2", WAITING, "pods", "one", "default")
    with pytest.raises(NoValueError, match=why):
        asyncio.run(values.about_objects(asked))


def test_a_pod_without_the_metric_leaves_the_sum_over_others_alone() -> None:
    known = objects([engine("one", "10.0.0.5"), engine("gateway", "10.0.0.7")])
    texts = {"http://10.0.0.5:8000/metrics": VLLM, "http://10.0.0.7:8000/metrics": "up 1\n"}
    found = asyncio.run(
        Engines(known, pages(PageTexts(texts), Clock())).external(BY_NAME[WAITING], "default")
    )
    assert ([one.amount for one in found.readings], found.problem) == ([3, 4], "")


def test_without_an_object_each_series_carries_its_pod() -> None:
    known = objects(
        [
            engine("one", "10.0.0.5", labels={"app": "llama"}),
            engine("starts", "10.0.0.6", ready=False),
            engine("two", "10.0.0.7"),
        ]
    )
    urls = ("http://10.0.0.5:8000/metrics", "http://10.0.0.7:8000/metrics")
    source = Engines(known, pages(PageTexts(dict.fromkeys(urls, f"{WAITING} 2\n")), Clock()))
    found = asyncio.run(source.external(BY_NAME[WAITING], "default"))
    assert not found.problem
    assert [(one.labels, one.amount) for one in found.readings] == [
        ({"pod": "one", "app": "llama"}, 2),
        ({"pod": "two"}, 2),
    ]


def test_a_ready_pod_that_does_not_answer_makes_the_sum_unknown() -> None:
    known = objects([engine("one", "10.0.0.5"), engine("two", "10.0.0.7")])
    source = Engines(known, pages(PageTexts({"http://10.0.0.5:8000/metrics": VLLM}), Clock()))
    assert asyncio.run(source.external(BY_NAME[WAITING], "default")).problem.startswith("pod two: its page")


AGES = "gpufleet_scheduler_queue_figures_age_seconds 4\ngpufleet_scheduler_waiting_figures_age_seconds 9\n"


def scheduler(waiting: int, leads: int = 1, ages: str = AGES) -> str:
    return (
        f"gpufleet_scheduler_leader {leads}\n{ages}"
        'gpufleet_scheduler_queue_active{queue="a"} 1\ngpufleet_scheduler_queue_active{queue="idle"} 1\n'
        f'gpufleet_scheduler_queue_pending_pods{{queue="a",reason="quota"}} {waiting}\n'
        'gpufleet_scheduler_queue_pending_pods{queue="a",reason="nodes"} 1\n'
        'gpufleet_scheduler_oldest_wait_seconds{queue="a",cause="quota"} 30\n'
        'gpufleet_scheduler_oldest_wait_seconds{queue="a",cause="nodes"} 40\n'
    )


def of_queues(name: str, *texts: str | None, ready: bool = True) -> FoundValues:
    """What is told of queues by schedulers with these pages; None: it does not answer."""
    labels = {"app.kubernetes.io/component": "scheduler"}
    known = objects(
        pod(f"scheduler-{at}", NAMESPACE, address=f"10.0.2.{at}", labels=labels, port=9401)
        for at in range(len(texts))
    )
    found = {f"http://10.0.2.{at}:9401/metrics": text for at, text in enumerate(texts) if text is not None}
    if ready:
        found |= {f"http://10.0.2.{at}:9401/readyz": "ok\n" for at in range(len(texts))}
    source = Queues(known, pages(PageTexts(found), Clock()), namespace=NAMESPACE, scheme="http")
    return asyncio.run(source.external(BY_NAME[name], "default"))


def test_what_waits_is_told_by_the_scheduler_that_leads() -> None:
    found = of_queues("gpufleet_queue_pending_pods", scheduler(99, leads=0), scheduler(5)).readings
    assert [(one.labels["queue"], one.amount) for one in found] == [("a", 6), ("idle", 0)]
    found = of_queues("gpufleet_queue_oldest_wait_seconds", scheduler(5), None).readings
    assert [(one.labels["queue"], one.amount) for one in found] == [("a", 40), ("idle", 0)]


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        ((), "no scheduler that leads could be read"),
        ((None,), "no scheduler that leads could be read: its page of metrics cannot be read"),
        ((scheduler(5, leads=0),), "no scheduler that leads could be read"),
        ((scheduler(5), scheduler(6)), "two schedulers say that they lead"),
        ((scheduler(5, ages=""),), "the scheduler that leads does not say how old its figures are"),
    ],
)
def test_why_queues_are_unknown(texts: tuple[str | None, ...], problem: str) -> None:
    found = of_queues("gpufleet_queue_pending_pods", *texts)
    assert found.readings == ()
    assert problem in found.problem


@pytest.mark.parametrize(
    ("metric", "age_s"), [("gpufleet_queue_pending_pods", 4), ("gpufleet_queue_oldest_wait_seconds", 9)]
)
def test_what_waits_is_as_old_as_the_scheduler_says(metric: str, age_s: float) -> None:
    assert {one.at_s for one in of_queues(metric, scheduler(5)).readings} == {Clock().now_s - age_s}


def test_a_scheduler_without_queues_knows_of_none() -> None:
    found = of_queues("gpufleet_queue_pending_pods", "gpufleet_scheduler_leader 1\n")
    assert (found.readings, found.problem) == ((), "")


def test_a_scheduler_with_an_old_view_is_not_believed() -> None:
    assert of_queues("gpufleet_queue_pending_pods", scheduler(5), ready=False).problem
