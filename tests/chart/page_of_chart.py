"""The page of an installed chart, reached through its Service as people do it: ``kubectl port-forward``."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from gpufleet.localkube.cluster import LocalCluster
from tests.chart.rendering import NAMESPACE
from tests.localkube.cluster import program
from tests.web.web_server import Browser

SERVICE = "service/gpufleet-web"


@contextmanager
def forwarded(cluster: LocalCluster) -> Iterator[int]:
    """The port of this machine that leads to the Service, for the length of the block."""
    command = [str(program("kubectl")), f"--kubeconfig={cluster.kubeconfig}", f"--namespace={NAMESPACE}"]
    with subprocess.Popen(
        [*command, "port-forward", SERVICE, ":80"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            found = re.match(r"Forwarding from 127\.0\.0\.1:(\d+) -> 9480", said)
            assert found is not None, said
            yield int(found[1])
        finally:
            process.terminate()


def person(port: int, token: str) -> Browser:
    """A browser of a person with a token, who logs in and sends the cookie from then on."""
    browser = Browser(port, token=token, host=f"localhost:{port}")
    assert browser.ask("/api/login", "POST").status == 204
    browser.token = ""
    return browser
