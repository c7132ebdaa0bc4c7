"""A pod as Kubernetes 1.37.0 served it, defaults, merged selectors and all; nothing was edited by hand
but ``managedFields``, which were left out.
"""

from pathlib import Path

import msgspec

from gpufleet.kube.codec.pod import read_pod
from gpufleet.kube.objects.pod import Pod
from gpufleet.model.host_port import HostPort
from gpufleet.model.labels import LabelSelector, Operator, Requirement
from gpufleet.model.pod_affinity import NamespaceScope, PodTerm
from gpufleet.model.shape import GpuRequest
from gpufleet.model.topology_spread import SpreadConstraint

SERVED = Path(__file__).parents[1] / "served" / "pod-1.37.0.json"
WEB = Requirement("app", Operator.IN, ("web",))
HASH = Requirement("hash", Operator.IN, ("1",))


def test_keys_that_the_server_merged_are_not_merged_again() -> None:
    pod = read_pod(msgspec.json.decode(SERVED.read_bytes(), type=Pod))
    relations = pod.shape.relations
    selector = LabelSelector((WEB, HASH, Requirement("tenant", Operator.NOT_IN, ("t",))))
    term = PodTerm("kubernetes.io/hostname", NamespaceScope(("default",)), selector)
    assert relations.anti_affinity == (term,)
    assert relations.spread == (SpreadConstraint(1, "zone", LabelSelector((WEB, HASH))),)


def test_defaults_of_the_server_change_nothing() -> None:
    pod = read_pod(msgspec.json.decode(SERVED.read_bytes(), type=Pod))
    assert (pod.name, pod.priority) == ("default/g0", 0)
    assert pod.shape.gpu == GpuRequest(1, 1000)
    assert pod.shape.resources.cpu_milli == 500
    assert pod.shape.resources.other == ()
    assert pod.shape.relations.ports == (HostPort(8080),)
    assert {one.key for one in pod.shape.tolerations} == {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    }
