"""Labels reach the cluster, only when they change, and whatever fails on the way."""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.agent.labels.publisher import LabelPublisher, machine_type
from gpufleet.agent.state.node_state import NodeGpus
from gpufleet.agent.state.topic import Topic
from gpufleet.devices.facts import Driver
from gpufleet.devices.sharing.plan import TimeSlice
from gpufleet.devices.sharing.plugin_config import Discovery
from gpufleet.kube.backoff import ONE_TRY
from gpufleet.kube.client import Client
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.kube_errors import KubeError
from gpufleet.model.gpu_catalogue import Vendor
from tests.agent.labels.cluster import Cluster
from tests.agent.labels.nodes import a_gpu, a_node
from tests.kube.virtual_time import run_virtually

DRIVER = Driver(Vendor.NVIDIA, "550.54.14", "12.4")
PLAIN = a_node(a_gpu(), drivers=(DRIVER,))
SHARED = a_node(a_gpu(0, TimeSlice(4)), drivers=(DRIVER,))
NOTHING = a_node(drivers=(DRIVER,))
FOREIGN = {"nvidia.com/gpu.deploy.driver": "true", "team": "a"}
TIMESTAMP = "nvidia.com/gfd.timestamp"
COUNT, PRODUCT = "nvidia.com/gpu.count", "nvidia.com/gpu.product"


def foreign_cluster(*, feature_discovery: bool = False) -> Cluster:
    """One whose node has labels of others."""
    return Cluster(
        feature_discovery=feature_discovery, **{name.replace("/", "__"): FOREIGN[name] for name in FOREIGN}
    )


def publisher(cluster: Cluster, known: NodeGpus, said: Discovery | None = None) -> LabelPublisher:
    """A new process of the agent."""
    client = Client(cluster, MachineClock(), random.Random(1), retry_limits=ONE_TRY)
    discovery: Topic[Discovery | None] = Topic(said)
    return LabelPublisher(
        Topic(known), client, random.Random(2), namespace="gpufleet-system", discovery=discovery
    )


def settle(cluster: Cluster, *known: NodeGpus) -> None:
    """Let a new process see these, one after another."""

    async def story() -> None:
        one = publisher(cluster, known[0])
        for value in known:
            one.gpus.publish(value)
            await one.reconcile()

    run_virtually(story())


def while_running(
    cluster: Cluster, known: NodeGpus, then: Callable[[LabelPublisher], Awaitable[None]]
) -> None:
    """Let the part of the agent run while something happens."""

    async def story() -> None:
        one = publisher(cluster, known)
        running = asyncio.create_task(one.run())
        await asyncio.sleep(1)
        await then(one)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    run_virtually(story())


def test_without_feature_discovery_labels_are_written_on_the_node_itself() -> None:
    cluster = foreign_cluster()
    settle(cluster, PLAIN)
    assert cluster.labels[COUNT] == "1"
    assert cluster.labels[TIMESTAMP].isdigit()
    assert FOREIGN.items() <= cluster.labels.items()


def test_labels_that_are_not_given_any_more_go_and_those_of_others_stay() -> None:
    cluster = foreign_cluster()
    settle(cluster, SHARED, NOTHING)
    assert cluster.labels == FOREIGN


def test_nothing_is_written_again_while_nothing_changes_nor_after_a_restart() -> None:
    cluster = foreign_cluster()
    settle(cluster, PLAIN, PLAIN)
    settle(cluster, PLAIN)
    assert len(cluster.writes) == 1


def test_with_feature_discovery_labels_go_into_a_nodefeature_that_belongs_to_the_node() -> None:
    cluster = foreign_cluster(feature_discovery=True)
    settle(cluster, PLAIN)
    assert cluster.labels == FOREIGN
    assert cluster.feature_labels[COUNT] == "1"
    (_, body) = cluster.writes[0]
    assert body["apiVersion"] == "nfd.k8s-sigs.io/v1alpha1"
    assert body["metadata"]["labels"]["nfd.node.kubernetes.io/node-name"] == "node-1"
    owner = {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "uid-1"}
    assert body["metadata"]["ownerReferences"] == [owner]


def test_labels_move_when_feature_discovery_comes_and_when_it_goes() -> None:
    cluster = foreign_cluster()
    settle(cluster, PLAIN)
    cluster.feature_discovery = True
    settle(cluster, PLAIN)
    assert (cluster.labels, cluster.feature_labels[COUNT]) == (FOREIGN, "1")
    cluster.feature_discovery = False
    settle(cluster, PLAIN)
    assert cluster.labels[COUNT] == "1"


def test_nothing_is_written_before_anybody_looked_at_the_gpus() -> None:
    cluster = foreign_cluster()
    settle(cluster, NodeGpus("node-1", problems=("the GPUs are being looked for",)))
    assert (cluster.writes, cluster.labels) == ([], FOREIGN)


def test_a_driver_that_does_not_answer_leaves_the_labels_as_they_were() -> None:
    cluster = foreign_cluster()
    settle(cluster, PLAIN, a_node(problems=("the driver does not answer",)))
    assert cluster.labels[COUNT] == "1"


def test_a_driver_that_is_gone_for_good_takes_its_labels_along() -> None:
    cluster = foreign_cluster()
    settle(cluster, PLAIN, a_node())
    assert cluster.labels == FOREIGN


def test_a_running_part_writes_what_changes() -> None:
    cluster = foreign_cluster()

    async def then(one: LabelPublisher) -> None:
        assert cluster.labels[PRODUCT] == "MOCKMODEL"
        one.gpus.publish(SHARED)
        await asyncio.sleep(1)
        assert cluster.labels[PRODUCT] == "MOCKMODEL-SHARED"
        assert len(cluster.writes) == 2

    while_running(cluster, PLAIN, then)


def test_what_somebody_took_away_comes_back() -> None:
    cluster = foreign_cluster()

    async def then(_: LabelPublisher) -> None:
        del cluster.labels[COUNT]
        await asyncio.sleep(400)
        assert cluster.labels[COUNT] == "1"

    while_running(cluster, PLAIN, then)


def test_a_refusal_is_told_and_tried_again_until_it_works() -> None:
    cluster = foreign_cluster()
    cluster.refuses_writes = True

    async def then(one: LabelPublisher) -> None:
        assert "not yours" in one.problem
        cluster.refuses_writes = False
        await asyncio.sleep(70)
        assert (one.problem, cluster.labels[COUNT]) == ("", "1")

    while_running(cluster, PLAIN, then)


@given(
    fails_at=st.integers(1, 8),
    after_acting=st.booleans(),
    discovery=st.lists(st.booleans(), min_size=2, max_size=3),
)
def test_a_process_that_dies_at_any_request_leaves_what_the_next_one_puts_right(
    *, fails_at: int, after_acting: bool, discovery: list[bool]
) -> None:
    """Feature discovery comes and goes, labels change, and one request of all is the process's last."""
    cluster = foreign_cluster()
    cluster.fails_at, cluster.fails_after_acting = fails_at, after_acting
    for position, installed in enumerate(discovery):
        cluster.feature_discovery = installed
        known = SHARED if position % 2 else PLAIN
        try:
            settle(cluster, known)
        except KubeError:
            settle(cluster, known)
        labels = dict(cluster.feature_labels if installed else cluster.labels)
        assert labels[PRODUCT] == ("MOCKMODEL-SHARED" if position % 2 else "MOCKMODEL")
        assert FOREIGN.items() <= cluster.labels.items()
        assert (COUNT in cluster.labels) != installed


def test_what_the_plugins_configuration_says_of_labels_is_heard_at_once(tmp_path: Path) -> None:
    file = tmp_path / "machine"
    file.write_text("DGX H100", encoding="utf-8")
    cluster = foreign_cluster()

    async def then(one: LabelPublisher) -> None:
        assert TIMESTAMP in cluster.labels
        one.discovery.publish(Discovery(timestamp=False, every_s=math.inf, machine_type_file=str(file)))
        await asyncio.sleep(1)
        assert cluster.labels["nvidia.com/gpu.machine"] == "DGX-H100"
        assert TIMESTAMP not in cluster.labels
        asked = cluster.requests
        await asyncio.sleep(100_000)
        assert cluster.requests == asked

    while_running(cluster, PLAIN, then)


def test_the_machine_s_type_is_what_its_file_says(tmp_path: Path) -> None:
    file = tmp_path / "product_name"
    assert machine_type(file) == ""
    file.write_text(" DGX H100\n", encoding="utf-8")
    assert machine_type(file) == "DGX H100"


def test_a_node_of_the_wrong_shape_is_a_failure_to_try_again() -> None:
    cluster = foreign_cluster()
    cluster.labels = msgspec.json.decode(b'{"a": 1}')
    with pytest.raises(KubeError, match="not as expected"):
        settle(cluster, PLAIN)
