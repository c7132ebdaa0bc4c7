"""The commands of docs/admission.md, typed into a shell on a real API server."""

import os
import subprocess
import sys
from pathlib import Path

from tests.admission.judging_server import PRIVILEGED, a_pod, bare_server
from tests.conventions.pages import steps
from tests.conventions.project import ROOT
from tests.localkube.cluster import program
from tests.waiting import until

PAGE = ROOT / "docs" / "admission.md"


def test_a_namespace_that_is_labelled_refuses_what_cannot_work(tmp_path: Path) -> None:
    commands = [command for command, _ in steps(PAGE)]
    with bare_server(tmp_path) as server:
        server.namespace("team-vision")
        path = f"{Path(sys.executable).parent}:{program('kubectl').parent}:{os.environ['PATH']}"
        environment = {"PATH": path, "KUBECONFIG": str(server.cluster.kubeconfig), "HOME": str(tmp_path)}
        for command in commands:
            typed = ["/bin/bash", "-o", "pipefail", "-c", command]
            done = subprocess.run(typed, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
        pod = a_pod("one", PRIVILEGED)
        until(lambda: server.create(pod, "team-vision").status == 403, 30, "it is not refused")
