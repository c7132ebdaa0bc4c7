"""A real control plane with the metrics APIs of a real ``gpufleet metrics``, with the rights of the chart.

The Service of the APIServices is a name for this machine, so no node is needed; or it has endpoints among
which the API server chooses, for several servers side by side. Pages that the server reads are served by
``PageServer``; a pod stands for one once its address is that of this machine.
"""

import base64
import contextlib
import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from gpufleet.localkube import manifests
from gpufleet.localkube.access.api import Api, Object
from gpufleet.localkube.access.certificates import Authority
from gpufleet.localkube.access.ports import LOOPBACK
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from tests.chart.rendering import NAMESPACE, rendered
from tests.localkube.cluster import KUBERNETES, a_cluster
from tests.usage.prometheus.server import free_port
from tests.waiting import until

SERVICE = "gpufleet-metrics-apis"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:gpufleet-metrics"
GROUPS = ("system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated")
CUSTOM = "/apis/custom.metrics.k8s.io/v1beta2"
EXTERNAL = "/apis/external.metrics.k8s.io/v1beta1"
PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
RIGHTS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "RoleBinding")


class PageServer:
    """Pages of metrics by path, on this machine; one that is not there hangs or is refused, as told."""

    def __init__(self) -> None:
        self.pages: dict[str, str] = {"/readyz": "ok\n"}
        self.hanging = threading.Event()
        self.answers = threading.Event()
        pages, hanging, answers = self.pages, self.hanging, self.answers

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if hanging.is_set():
                    answers.wait(20)
                page = pages.get(self.path)
                self.send_response(503 if page is None else 200)
                self.end_headers()
                self.wfile.write((page or "").encode())

            def log_message(self, *_: object) -> None:
                """A test's output is its own."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop serving."""
        self.answers.set()
        self._server.shutdown()
        self._server.server_close()


@dataclass
class Apis:
    """The control plane, the servers of the APIs, and the pages that they read.

    ``address`` is where the servers listen. Where it is not loopback the API server chooses among endpoints.
    """

    cluster: LocalCluster
    pages: PageServer
    folder: Path
    authority: Authority
    port: int
    address: str = LOOPBACK
    servers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def serve(self, *options: str, port: int | None = None) -> subprocess.Popen[bytes]:
        """Start one more ``gpufleet metrics``."""
        kubeconfig = self.cluster.kubeconfig_for(ACCOUNT, GROUPS)
        command = [sys.executable, "-m", "gpufleet", "metrics", f"--kubeconfig={kubeconfig}"]
        command += [f"--listen={self.address}:{port or self.port}", f"--scheduler-url={self.pages.url}"]
        command += [
            f"--metrics-certificate={self.folder / 'tls.crt'}",
            f"--metrics-key={self.folder / 'tls.key'}",
            *options,
        ]
        with (self.folder / f"metrics-{len(self.servers)}.log").open("ab") as log:
            server = subprocess.Popen(command, stderr=log, stdout=log)
        self.servers.append(server)
        return server

    def log(self) -> str:
        """What the servers said."""
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("metrics-*.log")))

    def register(self, api: Api) -> None:
        """The APIServices of the chart, and a Service that leads to the first server."""
        for its in rendered({"metricsApis.enabled": True}):
            if its["kind"] == "APIService":
                its["spec"]["caBundle"] = base64.b64encode(self.authority.identity.certificate).decode()
                its["spec"]["service"]["port"] = self.port
                path = f"/apis/apiregistration.k8s.io/v1/apiservices/{its['metadata']['name']}"
                api.apply(path, its)
        spec: Object = {"ports": [{"port": self.port}]}
        if self.address == LOOPBACK:
            spec |= {"type": "ExternalName", "externalName": "localhost"}
        else:
            self.lists(api, self.port)
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": SERVICE}, "spec": spec}
        api.apply(f"/api/v1/namespaces/{NAMESPACE}/services/{SERVICE}", service)

    def lists(self, api: Api, port: int, *, ready: bool = True) -> None:
        """The server at this port as an endpoint of the Service; each has a port of its own."""
        name, labels = f"{SERVICE}-{port}", {"kubernetes.io/service-name": SERVICE}
        endpoint = {"addresses": [self.address], "conditions": {"ready": ready}}
        its: Object = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4"}
        its |= {"metadata": {"name": name, "labels": labels}, "endpoints": [endpoint]}
        path = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices/{name}"
        api.apply(path, {**its, "ports": [{"name": "", "port": port, "protocol": "TCP"}]})

    def renew(self) -> None:
        """Another certificate of the same authority."""
        identity = self.authority.server([f"{SERVICE}.{NAMESPACE}.svc", "localhost"], ["127.0.0.1"])
        (self.folder / "tls.key").write_bytes(identity.key)
        (self.folder / "tls.crt").write_bytes(identity.certificate)


@contextlib.contextmanager
def running_apis(
    folder: Path, *flags: str, kubernetes: str = KUBERNETES, address: str = LOOPBACK
) -> Iterator[Apis]:
    """All of it; the APIs are available. ``flags`` are kube-controller-manager's."""
    of_programs = {"kube-controller-manager": flags}
    if address != LOOPBACK:
        of_programs["kube-apiserver"] = ("--enable-aggregator-routing=true",)
    options = Options(kubernetes=kubernetes, flags=of_programs)
    pages, port = PageServer(), free_port()
    served = folder / "served"
    served.mkdir()
    with a_cluster(folder, options=options) as cluster, cluster.api() as api:
        apis = Apis(cluster, pages, served, Authority.new("metrics"), port, address)
        apis.renew()
        manifests.install(api)
        grant_rights(api)
        try:
            apis.serve()
            apis.register(api)
            until(lambda: available(api), 90, "the metrics APIs are not available")
            yield apis
        except AssertionError as error:
            error.add_note(apis.log()[-4000:])
            raise
        finally:
            for server in apis.servers:
                server.terminate()
            for server in apis.servers:
                assert server.wait(20) == 0
            pages.close()


def grant_rights(api: Api) -> None:
    """The account of the chart with its rights, and no more."""
    plurals = {"ServiceAccount": "serviceaccounts", "ClusterRole": "clusterroles"}
    plurals |= {"ClusterRoleBinding": "clusterrolebindings", "RoleBinding": "rolebindings"}
    for its in rendered({"metricsApis.enabled": True}):
        name = its["metadata"]["name"]
        if its["kind"] in RIGHTS and name.startswith("gpufleet-metrics"):
            namespace = its["metadata"].get("namespace")
            where = f"namespaces/{namespace}/" if namespace else ""
            group = "/api/v1" if its["kind"] == "ServiceAccount" else f"/apis/{its['apiVersion']}"
            api.apply(f"{group}/{where}{plurals[its['kind']]}/{name}", its)


def available(api: Api) -> bool:
    """Whether the API server reaches all three."""
    found = api.call("GET", "/apis/apiregistration.k8s.io/v1/apiservices")["items"]
    ours = [one for one in found if one["spec"].get("group", "").endswith(".metrics.k8s.io")]
    return len(ours) == 3 and all(
        any(
            condition["type"] == "Available" and condition["status"] == "True"
            for condition in one.get("status", {}).get("conditions", [])
        )
        for one in ours
    )


def page_pod(api: Api, name: str, pages: PageServer, path: str, **labels: str) -> None:
    """A ready pod whose page of metrics is on this machine."""
    annotations = {"gpufleet.io/metrics-port": str(pages.port), "gpufleet.io/metrics-path": path}
    metadata = {"name": name, "annotations": annotations, "labels": labels}
    spec = {"containers": [{"name": "one", "image": "none"}]}
    api.call("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    lives(api, name)


def lives(api: Api, name: str) -> None:
    """The pod runs and is ready, at the address of this machine."""
    conditions = [{"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady", "Initialized")]
    status = {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
    body = {"status": {**status, "conditions": conditions}}
    api.call("PATCH", f"{PODS}/{name}/status", body, "application/merge-patch+json")


def simulated_node(api: Api, name: str) -> None:
    """A node that KWOK keeps, for pods that shall just run."""
    room = {"cpu": "64", "memory": "256Gi", "pods": "200"}
    metadata = {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}}
    api.call("POST", NODES, {"metadata": metadata, "status": {"allocatable": room, "capacity": room}})


def deployment(api: Api, name: str, replicas: int, node: str = "", **annotations: str) -> None:
    """Pods of one kind, on this node without a scheduler's help."""
    labels = {"app": name}
    spec: Object = {"containers": [{"name": "one", "image": "none"}]}
    spec |= {"nodeName": node} if node else {}
    template = {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}
    desired = {"replicas": replicas, "template": template, "selector": {"matchLabels": labels}}
    body = {"metadata": {"name": name}, "spec": desired}
    api.call("POST", "/apis/apps/v1/namespaces/default/deployments", body)


def autoscaler(api: Api, name: str, metric: Object, *, least: int = 0, most: int = 10) -> None:
    """A HorizontalPodAutoscaler of the Deployment of this name that goes down at once."""
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "minReplicas": least,
        "maxReplicas": most,
        "metrics": [metric],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
    }
    body = {"metadata": {"name": name}, "spec": spec}
    api.call("POST", "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", body)


def replicas(api: Api, name: str) -> int:
    """How many the Deployment shall have."""
    found: int = api.call("GET", f"/apis/apps/v1/namespaces/default/deployments/{name}")["spec"]["replicas"]
    return found


def scales_to(api: Api, name: str, count: int) -> None:
    """Wait until the autoscaler has set the Deployment to this many; else say what it says."""
    with contextlib.suppress(AssertionError):
        until(lambda: replicas(api, name) == count, 60)
    path = f"/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/{name}"
    assert replicas(api, name) == count, api.call("GET", path)["status"]


def condition(api: Api, name: str, kind: str) -> dict[str, Any]:
    """A condition of an autoscaler; empty without one."""
    path = f"/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/{name}"
    conditions = api.call("GET", path).get("status", {}).get("conditions") or []
    return next((one for one in conditions if one["type"] == kind), {})


def asked(api: Api, path: str) -> tuple[int, Any]:
    """The status and the document at a path."""
    status, body = api.request("GET", path)
    return status, msgspec.json.decode(body)
