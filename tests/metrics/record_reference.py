"""Writes down what the reference adapter answers: ``python -m tests.metrics.record_reference``.

It runs beside a local cluster with the objects of ``reference_questions``, is given their values, and is
asked everything there. The answers are compared with gpufleet's own by ``test_against_reference``.
"""

import json
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from gpufleet.localkube import manifests
from gpufleet.localkube.cluster import LocalCluster
from tests.localkube.cluster import a_cluster
from tests.metrics import reference_questions as asked
from tests.metrics.reference_adapter import program

ANSWERS = Path(__file__).with_name("reference_answers.json")
WRITE_PORT = 8080
"""The adapter's own, which cannot be chosen."""
TIMES = "2026-01-01T00:00:00Z"
"""Stands for the time of a value: both sides have their own clocks."""


def main() -> None:
    """Record and write the file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with a_cluster(folder) as cluster:
            _prepare(cluster)
            answers = _answers(cluster, folder)
    ANSWERS.write_text(json.dumps(answers, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _prepare(cluster: LocalCluster) -> None:
    with cluster.api() as api:
        manifests.install(api)
        for name, labels in asked.PODS.items():
            metadata = {"name": name, "labels": labels}
            spec = {"containers": [{"name": "one", "image": "none"}]}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
            api.call("POST", "/api/v1/namespaces/default/pods", pod)
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": asked.NODE}}
        api.call("POST", "/api/v1/nodes", node)
        kind = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue"}
        queue = {**kind, "metadata": {"name": asked.QUEUE}, "spec": {}}
        api.call("POST", "/apis/gpufleet.io/v1alpha1/fleetqueues", queue)


def _answers(cluster: LocalCluster, folder: Path) -> list[dict[str, object]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    kubeconfig = cluster.kubeconfig
    options = ("lister-kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
    command = [
        str(program()),
        *(f"--{option}={kubeconfig}" for option in options),
        f"--secure-port={port}",
        f"--cert-dir={folder / 'certificates'}",
        "--v=1",
    ]
    with subprocess.Popen(command, cwd=folder) as adapter:
        try:
            return _asked(cluster, port)
        finally:
            adapter.terminate()
            shutil.rmtree(folder / "certificates", ignore_errors=True)


def _asked(cluster: LocalCluster, port: int) -> list[dict[str, object]]:
    context = ssl.create_default_context(cafile=None)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(cluster.folder / "admin.crt", cluster.folder / "admin.key")
    for path, (value, labels) in asked.VALUES.items():
        query = f"?labels={labels}" if labels else ""
        url = f"http://127.0.0.1:{WRITE_PORT}/write-metrics/{path}{query}"
        _until_answered(url, json.dumps(value).encode())
    # Until it has read which authorities sign certificates of clients, everybody is anonymous to it.
    while _one(f"https://127.0.0.1:{port}/apis", context)[0] != 200:
        time.sleep(0.2)
    return [
        {"target": target, "status": status, "answer": answer}
        for target in asked.TARGETS
        for status, answer in [_one(f"https://127.0.0.1:{port}{target}", context)]
    ]


def _until_answered(url: str, body: bytes) -> None:
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310
    limit_s = time.monotonic() + 30
    while True:
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310
                answer.read()
            return
        except urllib.error.HTTPError:
            raise
        except OSError:
            if time.monotonic() > limit_s:
                raise
            time.sleep(0.2)


def _one(url: str, context: ssl.SSLContext) -> tuple[int, object]:
    limit_s = time.monotonic() + 30
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10, context=context) as answer:  # noqa: S310
                return answer.status, without_times(json.loads(answer.read()))
        except urllib.error.HTTPError as error:
            body = error.read().decode()
            try:
                return error.code, without_times(json.loads(body))
            except ValueError:
                return error.code, body
        except OSError:
            if time.monotonic() > limit_s:
                raise
            time.sleep(0.2)


def without_times(answer: object) -> object:
    """The answer with one time in the place of all."""
    if isinstance(answer, list):
        return [without_times(one) for one in answer]
    if isinstance(answer, dict):
        return {
            key: TIMES if key == "timestamp" and isinstance(value, str) else without_times(value)
            for key, value in answer.items()
        }
    return answer


if __name__ == "__main__":
    main()
