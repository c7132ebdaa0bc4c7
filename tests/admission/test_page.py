"""The commands of docs/admission.md, typed into a shell on a real API server."""

import os
import subprocess
import sys
from pathlib import Path

from tests.admission.judging_server import PRIVILEGED, JudgingServer, a_pod, all_policies
from tests.conventions.pages import steps
from tests.conventions.project import ROOT
from tests.localkube.cluster import program
from tests.waiting import until

PAGE = ROOT / "docs" / "admission.md"
DEPLOYMENT = "/apis/apps/v1/namespaces/team-vision/deployments"
SOMETHING_REFUSED = 1


def deployment() -> dict[str, object]:
    labels = {"app": "train"}
    template = {"metadata": {"labels": labels}, "spec": PRIVILEGED}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "train"}, "spec": spec}


def test_a_namespace_that_is_planned_for_and_labelled_refuses_what_cannot_work(
    server: JudgingServer, tmp_path: Path
) -> None:
    server.namespace("team-vision")
    server.api.call("POST", DEPLOYMENT, deployment())
    # As on a cluster that has no policies yet.
    server.remove(all_policies())
    try:
        type_all(server, tmp_path)
        pod = a_pod("one", PRIVILEGED)
        until(lambda: server.create(pod, "team-vision").status == 403, 30, "it is not refused")
    finally:
        server.judge()


def type_all(server: JudgingServer, home: Path) -> None:
    path = f"{Path(sys.executable).parent}:{program('kubectl').parent}:{os.environ['PATH']}"
    environment = {"PATH": path, "KUBECONFIG": str(server.cluster.kubeconfig), "HOME": str(home)}
    for command, shown in steps(PAGE):
        typed = ["/bin/bash", "-o", "pipefail", "-c", command]
        done = subprocess.run(typed, env=environment, capture_output=True, text=True, check=False)
        code = SOMETHING_REFUSED if "admission plan" in command else 0
        assert done.returncode == code, f"$ {command}\n{done.stdout}{done.stderr}"
        assert done.stdout.splitlines()[: len(shown)] == shown
