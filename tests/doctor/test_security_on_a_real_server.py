"""Ways to let tenants reach what is not theirs: on a real API server, the right cause is named first."""

from gpufleet.localkube.access.api import Object
from tests.doctor.kubelets import running_pods
from tests.doctor.patient import Patient, a_deployment, a_pod

NAMESPACES = "/api/v1/namespaces"
ENFORCE = "pod-security.kubernetes.io/enforce"
SECRET = "hf_" + "abcdefgh" * 4


def running(patient: Patient, pod: Object) -> None:
    """A Deployment of such pods, of which one runs."""
    patient.apply(a_deployment("work", pod))
    running_pods(patient, "work")


def a_container(**changes: object) -> Object:
    """A pod with a GPU whose container is changed so."""
    pod = a_pod("work")
    pod["spec"]["containers"][0] |= changes
    return pod


def test_privileged_gpu_work(patient: Patient) -> None:
    running(patient, a_container(securityContext={"privileged": True}))
    patient.finds("gpu-work-privileged", "Deployment default/work", "privileged: true")


def test_device_files_from_the_node(patient: Patient) -> None:
    volume = {"name": "gpus", "hostPath": {"path": "/dev/nvidia0"}}
    pod = a_container(volumeMounts=[{"name": "gpus", "mountPath": "/dev/nvidia0"}])
    pod["spec"]["volumes"] = [volume]
    running(patient, pod)
    patient.finds("devices-mounted", "Deployment default/work", "/dev/nvidia0")


def test_gpus_taken_by_a_variable(patient: Patient) -> None:
    pod = a_pod("work", gpus=0)
    pod["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    patient.without_device_policies(pod)
    running(patient, pod)
    patient.finds("devices-by-variable", "Deployment default/work", "NVIDIA_VISIBLE_DEVICES")


def test_a_token_in_the_template(patient: Patient) -> None:
    running(patient, a_container(env=[{"name": "HF_TOKEN", "value": SECRET}]))
    found = patient.finds("token-written", "Deployment default/work", "HF_TOKEN", "not shown here")
    failure = found.failure
    told = (failure.says, *failure.evidence, *(f"{one.does} {one.command}" for one in failure.mends))
    assert not any(SECRET in one for one in told)


def test_a_namespace_without_pod_security_beside_one_with_it(patient: Patient) -> None:
    levels = ({"metadata": {"labels": {ENFORCE: level}}} for level in ("baseline", None))
    running(patient, a_pod("work"))
    patient.patch(f"{NAMESPACES}/gpufleet-system", *levels)
    patient.finds("pod-security-unset", "Namespace default", "gpufleet-system has baseline")


def test_a_tenant_without_a_network_policy_beside_one_with_it(patient: Patient) -> None:
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "own", "namespace": "gpufleet-system"},
        "spec": {"podSelector": {}},
    }
    other = a_pod("other")
    patient.apply(policy, {**other, "metadata": {"name": "other", "namespace": "gpufleet-system"}})
    running(patient, a_pod("work"))
    patient.finds("network-policy-missing", "Namespace default", "gpufleet-system has some")
