"""Ways to see nothing of the GPUs: on a real API server, the right cause is named first."""

from typing import Any

from gpufleet.localkube.access.api import Object
from tests.doctor.kubelets import a_real_node, running_pods, say_of_container, waiting
from tests.doctor.patient import Patient, a_pod

MONITORING = "monitoring.coreos.com"
KINDS = ("Prometheus", "ServiceMonitor", "PodMonitor", "PrometheusRule")
APP = {"app": "dcgm-exporter"}


def a_program(name: str, image: str, **container: Any) -> Object:
    """A pod of somebody's program, with the labels of the exporter."""
    pod = a_pod(name, gpus=0)
    pod["spec"]["containers"][0] |= {"image": image, **container}
    return {**pod, "metadata": {"name": name, "labels": APP}}


def an_exporter() -> Object:
    """The exporter with its port."""
    image = "nvcr.io/nvidia/k8s/dcgm-exporter:4.5.2-4.8.1-distroless"
    return a_program("dcgm-exporter", image, ports=[{"name": "metrics", "containerPort": 9400}])


def of_operator(kind: str, name: str, labels: dict[str, str] | None = None, **spec: Any) -> Object:
    """An object of the Prometheus operator."""
    metadata = {"name": name, "labels": labels or {}}
    return {"apiVersion": f"{MONITORING}/v1", "kind": kind, "metadata": metadata, "spec": spec}


def a_server(**labels: str) -> Object:
    """A Prometheus that takes monitors with these labels."""
    return of_operator(
        "Prometheus",
        "main",
        serviceMonitorSelector={"matchLabels": labels},
        serviceMonitorNamespaceSelector={},
        podMonitorSelector={},
        podMonitorNamespaceSelector={},
    )


def a_monitor(port: str = "metrics", labels: dict[str, str] | None = None, **selects: str) -> Object:
    """A ServiceMonitor of the exporter."""
    endpoints = [{"port": port, "interval": "15s"}]
    selector = {"matchLabels": selects or APP}
    return of_operator("ServiceMonitor", "dcgm-exporter", labels, selector=selector, endpoints=endpoints)


def a_service() -> Object:
    """The exporter's Service."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "dcgm-exporter", "labels": APP},
        "spec": {"selector": APP, "ports": [{"name": "metrics", "port": 9400}]},
    }


def test_no_exporter_on_a_node_where_metrics_are_collected(patient: Patient) -> None:
    patient.apply(a_real_node("metal-1"), a_program("prometheus-0", "quay.io/prometheus/prometheus:v3.5.0"))
    patient.finds("exporter-missing", "metal-1", "no DaemonSet of the cluster is an exporter")


def test_without_prometheus_nobody_complains_of_a_missing_exporter(patient: Patient) -> None:
    patient.apply(a_real_node("metal-1"))
    patient.is_healthy()
    watching = next(one for one in patient.examined().points if one.point.number == 6)
    assert any("no Prometheus" in one for one in watching.unjudged)


def test_a_monitor_that_matches_no_service(patient: Patient) -> None:
    patient.define(MONITORING, "v1", *KINDS)
    patient.apply(a_server(), an_exporter(), a_service(), a_monitor(app="nvidia-dcgm-exporter"))
    patient.finds("exporter-unscraped", "ServiceMonitor default/dcgm-exporter", "matches no Service")


def test_a_monitor_that_names_no_port_of_its_service(patient: Patient) -> None:
    patient.define(MONITORING, "v1", *KINDS)
    patient.apply(a_server(), an_exporter(), a_service(), a_monitor(port="metric"))
    found = patient.finds("exporter-unscraped", "no port of the name metric", "its ports are metrics")
    assert "metrics?" in found.failure.mends[0].does


def test_a_monitor_that_no_prometheus_selects(patient: Patient) -> None:
    patient.define(MONITORING, "v1", *KINDS)
    patient.apply(a_server(release="prometheus"), an_exporter(), a_service(), a_monitor())
    found = patient.finds("exporter-unscraped", "Prometheus default/main does not select it")
    assert found.failure.mends[0].command.endswith("dcgm-exporter release=prometheus")


def test_a_pod_monitor_that_matches_no_pod(patient: Patient) -> None:
    patient.define(MONITORING, "v1", *KINDS)
    selector = {"matchLabels": {"app": "dcgm"}}
    monitor = of_operator("PodMonitor", "dcgm", selector=selector, podMetricsEndpoints=[{"port": "metrics"}])
    patient.apply(a_server(), an_exporter(), monitor)
    patient.finds("exporter-unscraped", "PodMonitor default/dcgm", "matches no Pod")


def test_a_monitor_that_is_read_is_no_failure(patient: Patient) -> None:
    patient.define(MONITORING, "v1", *KINDS)
    patient.apply(a_server(release="p"), an_exporter(), a_service(), a_monitor(labels={"release": "p"}))
    patient.is_healthy()
    watching = next(one for one in patient.examined().points if one.point.number == 6)
    assert any("the one monitor of GPU exporters is read" in one for one in watching.good)


def test_alerts_of_which_none_is_about_gpus(patient: Patient) -> None:
    patient.define(MONITORING, "v1", *KINDS)
    rules = [{"alert": "NodeDown", "expr": "up == 0"}, {"record": "a:b", "expr": "DCGM_FI_DEV_GPU_UTIL"}]
    patient.apply(of_operator("PrometheusRule", "nodes", groups=[{"name": "nodes", "rules": rules}]))
    found = patient.finds("gpu-alerts-missing", "no alert in 1 PrometheusRule is about GPUs")
    (mend,) = found.failure.mends
    assert mend.command == (
        "helm upgrade gpufleet charts/gpufleet --namespace gpufleet-system --reuse-values"
        " --set prometheusRule.enabled=true"
    )


def test_an_exporter_that_does_not_start(patient: Patient) -> None:
    there = {"kubernetes.io/hostname": "gpu-001"}
    template = {"metadata": {"labels": APP}, "spec": {**an_exporter()["spec"], "nodeSelector": there}}
    daemon = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "dcgm-exporter"},
        "spec": {"selector": {"matchLabels": APP}, "template": template},
    }
    patient.apply(daemon)
    [pod] = running_pods(patient, "dcgm-exporter")
    say_of_container(patient, pod, restarts=7, state=waiting("CrashLoopBackOff"))
    patient.finds("exporter-unready", "DaemonSet default/dcgm-exporter", "gpu-001", "7 restarts", age_s=600)
