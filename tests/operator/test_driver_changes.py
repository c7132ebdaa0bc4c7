"""The write that changes the driver of a node: what is paused first, and what waits for what."""

import json
import random
from typing import Any

import msgspec

from gpufleet.eviction.evictions import Evictions
from gpufleet.kube.client import Client
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.transport import Request, Response
from gpufleet.model.fleet_policy import Driver, DriverSource
from gpufleet.model.identifiers import NodeName
from gpufleet.model.node_images import images_of
from gpufleet.operator.rollout.actions import SetDriver
from gpufleet.operator.rollout_actions import RolloutActions, SeenNode
from gpufleet.operator.rollout_drains import RefusedEvictions
from gpufleet.operator.rollout_driver import daemon_set
from gpufleet.operator.rollout_objects import TEMPLATE_ANNOTATION as TEMPLATE
from gpufleet.operator.rollout_objects import HeldPod, image_key
from tests.kube.scripted_transport import ScriptedTransport, answer
from tests.kube.virtual_time import run_virtually
from tests.operator.builders import DIGEST, OTHER_DIGEST, node

N1 = NodeName("n1")
PLUGIN, DCGM = "nvidia.com/gpu.deploy.dra-driver", "nvidia.com/gpu.deploy.dcgm"
DRIVER = "gpufleet.io/driver"
PAUSED = "paused-for-driver-upgrade"


def written(labels: dict[str, str], *pods: HeldPod) -> dict[str, Any] | None:
    """What is written of labels where a node of these labels and pods is to have the driver DIGEST."""
    transport = ScriptedTransport(answer({}))

    async def main() -> None:
        client = Client(transport, MachineClock(), random.Random(1))
        # Nothing is evicted here.
        evictions: Evictions = None  # type: ignore[assignment]
        actions = RolloutActions(client, "gpufleet-system", evictions, RefusedEvictions(), "gpufleet")
        seen = SeenNode({N1: node(labels=labels)}, {N1: pods})
        await actions.carry_out(SetDriver(N1, DIGEST), seen, None, lambda: True)

    run_virtually(main())
    bodies = [json.loads(one.body or b"{}") for one in transport.asked]
    return bodies[0]["metadata"]["labels"] if bodies else None


def pod(name: str, *, by_claim: bool = False, **parts: Any) -> HeldPod:
    metadata = {"name": name, "namespace": "gpufleet-system", "uid": name, **parts}
    body = {"metadata": metadata, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}
    found = msgspec.json.decode(msgspec.json.encode(body), type=HeldPod)
    return msgspec.structs.replace(found, holds_by_claim=by_claim)


OLD = pod("driver-old", labels={DRIVER: image_key(OTHER_DIGEST)})
LABELS = {PLUGIN: "true", DCGM: "true", DRIVER: image_key(OTHER_DIGEST)}


def test_the_part_that_gives_claims_outlives_all_pods_that_have_any() -> None:
    """Paused together, the pods of other parts could not end, and the driver would never be free."""
    assert written(LABELS, OLD, pod("dcgm", by_claim=True)) == {DCGM: PAUSED}


def test_it_is_paused_once_no_pod_has_a_claim_on_gpus_and_the_driver_of_before_leaves() -> None:
    assert written(LABELS, OLD) == {PLUGIN: PAUSED, DCGM: PAUSED, DRIVER: None}
    assert written({**LABELS, DCGM: PAUSED}, OLD) == {PLUGIN: PAUSED, DRIVER: None}


def test_a_claim_keeps_no_driver_where_that_part_does_not_run() -> None:
    without = {DCGM: "true", DRIVER: image_key(OTHER_DIGEST)}
    assert written(without, OLD, pod("work", by_claim=True)) == {DCGM: PAUSED, DRIVER: None}


def test_the_new_driver_comes_when_the_one_of_before_has_left() -> None:
    paused = {PLUGIN: PAUSED, DCGM: PAUSED}
    assert written(paused, OLD) is None
    assert written(paused) == {DRIVER: image_key(DIGEST)}


WANTED = daemon_set("gpufleet-system", Driver(DriverSource.IMAGE, DIGEST), DIGEST)
OF_BEFORE = {"metadata": {"name": WANTED["metadata"]["name"], "uid": "u", "annotations": {TEMPLATE: "0123"}}}


def renewed(*answers: Response, times: int = 1) -> list[Request]:
    """What is asked for, where the DaemonSet of a policy's driver is to be as this version makes it."""
    transport = ScriptedTransport(*answers)

    async def main() -> None:
        client = Client(transport, MachineClock(), random.Random(1))
        # Nothing is evicted here.
        evictions: Evictions = None  # type: ignore[assignment]
        actions = RolloutActions(client, "gpufleet-system", evictions, RefusedEvictions(), "gpufleet")
        for _ in range(times):
            await actions.renew(images_of(DIGEST), Driver(DriverSource.IMAGE, DIGEST))

    run_virtually(main())
    return transport.asked


def test_pods_of_a_daemon_set_that_another_version_made_start_as_this_one_has_them() -> None:
    asked = renewed(answer(OF_BEFORE), answer({}), times=2)
    assert [one.method for one in asked] == ["GET", "PATCH"]
    body = json.loads(asked[1].body or b"{}")
    assert body["metadata"] == {"uid": "u", "annotations": WANTED["metadata"]["annotations"]}
    assert body["spec"] == {"template": WANTED["spec"]["template"]}


def test_a_daemon_set_of_this_version_is_not_written_and_none_is_made_before_its_rollout() -> None:
    assert [
        one.method for one in renewed(answer(WANTED | {"metadata": WANTED["metadata"] | {"uid": "u"}}))
    ] == ["GET"]
    assert [one.method for one in renewed(answer({"reason": "NotFound"}, 404))] == ["GET"]
