"""The doctor's own role is enough to see everything; who may see less is told what is not judged."""

from gpufleet.doctor.checks import all_checks
from gpufleet.doctor.command import facts_of
from gpufleet.doctor.diagnosis import Status, diagnose
from gpufleet.doctor.live.gathering import gathered
from tests.doctor.facts_of_text import NOW
from tests.doctor.patient import Patient

BINDING = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %s}
subjects: [{kind: Group, apiGroup: rbac.authorization.k8s.io, name: %s}]
"""
FEW = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: only-nodes}
rules: [{apiGroups: [""], resources: [nodes], verbs: [get, list]}]
"""


def test_the_role_is_enough(patient: Patient) -> None:
    patient.apply(BINDING % ("physicians", "gpufleet-doctor", "physicians"))
    found = gathered(patient.cluster.kubeconfig_for("ann", ("physicians",)), "")
    assert found.refused == {}
    assert {"Node", "NodeDevices", "Event"} <= found.listed


def test_who_may_see_only_nodes_hears_what_is_not_judged(patient: Patient) -> None:
    patient.apply(FEW, BINDING % ("visitors", "only-nodes", "visitors"))
    found = gathered(patient.cluster.kubeconfig_for("bob", ("visitors",)), "")
    diagnosis = diagnose(facts_of(found, NOW), all_checks())
    assert diagnosis.is_healthy
    nodes, stack = diagnosis.points[:2]
    assert nodes.status is Status.PASSED
    assert any("DaemonSet cannot be listed" in one for one in stack.unjudged), stack
