"""Which images of a node a rollout minds, and when all of them run."""

import msgspec
import pytest

from gpufleet.model.identifiers import FleetPolicyName
from gpufleet.model.node_images import images_of
from gpufleet.operator.node_facts import NodeFacts
from gpufleet.operator.node_objects import DRIVER_LABEL, TOOLKIT_LABEL
from gpufleet.operator.rollout.observed import Drain
from gpufleet.operator.rollout.stamp import RolloutPhase, Stamp
from gpufleet.operator.rollout_images import minded_parts
from gpufleet.operator.rollout_objects import HeldPod, image_key
from gpufleet.operator.rollout_observing import observed
from gpufleet.operator.rollout_toolkit import toolkit_daemon_set
from tests.operator.builders import DIGEST, OTHER_DIGEST, TOOLKIT, node

BOTH = f"{DIGEST} and toolkit {TOOLKIT}"


def stamp(target: str, previous: str, phase: RolloutPhase, failed: str = "") -> Stamp:
    return Stamp(FleetPolicyName("all"), target, previous, phase, 0, 0, failed_target=failed)


def at(found: NodeFacts, wanted: Stamp | None, **labels: str) -> NodeFacts:
    return msgspec.structs.replace(found, stamp=wanted, labels={**found.labels, **labels})


def pod(label: str, image: str, *, ready: bool) -> HeldPod:
    condition = {"type": "Ready", "status": str(ready)}
    metadata = {"name": label[-6:], "namespace": "ours", "uid": label, "labels": {label: image_key(image)}}
    body = {"metadata": metadata, "status": {"phase": "Running", "conditions": [condition]}}
    return msgspec.json.decode(msgspec.json.encode(body), type=HeldPod)


def test_a_toolkit_that_no_policy_names_is_left_alone() -> None:
    labels = {DRIVER_LABEL: image_key(DIGEST), TOOLKIT_LABEL: image_key(TOOLKIT)}
    there = at(node(annotations={"gpufleet.io/toolkit-image": TOOLKIT}), None, **labels)
    assert observed(there, (), Drain(), "ours", wanted_image=DIGEST).image == DIGEST
    assert observed(there, (), Drain(), "ours", wanted_image=BOTH).image == BOTH


def test_on_the_way_back_the_toolkit_that_failed_has_to_leave() -> None:
    """The image of before had no toolkit, and without this the broken one would stay the default runtime."""
    back = stamp(DIGEST, DIGEST, RolloutPhase.CHANGING, failed=BOTH)
    assert minded_parts(back, images_of(DIGEST)) == ("driver", "toolkit")
    labels = {DRIVER_LABEL: image_key(DIGEST), TOOLKIT_LABEL: image_key(TOOLKIT)}
    assert observed(at(node(), back, **labels), (), Drain(), "ours", wanted_image=BOTH).image == BOTH
    leaving = pod(TOOLKIT_LABEL, TOOLKIT, ready=True)
    driver = pod(DRIVER_LABEL, DIGEST, ready=True)
    found = observed(
        at(node(), back, **{DRIVER_LABEL: image_key(DIGEST)}),
        (driver, leaving),
        Drain(),
        "ours",
        wanted_image=BOTH,
    )
    assert (found.image, found.runs) == (DIGEST, False)
    assert "toolkit of before has not left" in found.driver_words


@pytest.mark.parametrize(
    ("driver_ready", "toolkit_ready", "runs"),
    [(True, True, True), (True, False, False), (False, True, False), (True, None, None)],
)
def test_a_node_runs_when_both_do(
    driver_ready: bool,
    toolkit_ready: bool | None,
    runs: bool | None,
) -> None:
    coming = stamp(BOTH, OTHER_DIGEST, RolloutPhase.CHANGING)
    labels = {DRIVER_LABEL: image_key(DIGEST), TOOLKIT_LABEL: image_key(TOOLKIT)}
    pods = [pod(DRIVER_LABEL, DIGEST, ready=driver_ready)]
    if toolkit_ready is not None:
        pods.append(pod(TOOLKIT_LABEL, TOOLKIT, ready=toolkit_ready))
    found = observed(at(node(), coming, **labels), pods, Drain(), "ours", wanted_image=BOTH)
    assert (found.image, found.runs) == (BOTH, runs)


def test_the_toolkit_is_started_as_its_image_expects_it() -> None:
    """As NVIDIA's operator starts it: its program, where it installs, its runtime, and what it reads."""
    spec = toolkit_daemon_set("ours", TOOLKIT)["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["command"][-1].endswith("exec nvidia-toolkit /usr/local/nvidia")
    environment = {one["name"]: one["value"] for one in container["env"]}
    assert (environment["ROOT"], environment["RUNTIME"]) == ("/usr/local/nvidia", "containerd")
    mounted = {one["mountPath"] for one in container["volumeMounts"]}
    assert {"/etc/containerd", "/run/containerd", "/run/nvidia/driver", "/host"} <= mounted
    assert spec["hostPID"] is True
    assert "serviceAccountName" not in spec
