"""Watches of a real API server fall silent on their way to the scheduler: its alert fires, and no other.

A proxy stands between the two, as a load balancer does. It lets requests pass, so the scheduler goes on
leading, and withholds what watches say. Time is as short as in ``test_faults_on_a_real_scheduler``.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random

from gpufleet.kube.following_access import find_access
from gpufleet.kube.http_transport import HttpTransport
from gpufleet.kube.manifests import DEFAULT_IDENTITY
from gpufleet.kube.transport import Request, Response, ResponseStream
from gpufleet.localkube import manifests
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.simulation.faults.interference import Fault
from tests.agent.test_process import NOWHERE
from tests.alerts.test_faults_on_a_real_agent import count, is_late
from tests.alerts.test_faults_on_a_real_scheduler import a_scheduler, config, told
from tests.chaos.proxy import Proxy
from tests.localkube.cluster import KUBERNETES, a_cluster
from tests.usage.prometheus.server import free_port, prometheus
from tests.waiting import until

SILENT = "SchedulerWatchSilent"
POLL_EVERY_S = 0.05


class Silence(Fault):
    """Watches say nothing, and none is opened."""

    async def before_open(self, request: Request) -> Response | ResponseStream | None:  # noqa: ARG002  any
        """Wait for as long as it lasts."""
        while self.active:  # noqa: ASYNC110  another thread ends it
            await asyncio.sleep(POLL_EVERY_S)
        return None

    async def chunks(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Withhold what comes."""
        async for line in lines:
            while self.active:  # noqa: ASYNC110  another thread ends it
                await asyncio.sleep(POLL_EVERY_S)
            yield line


@contextmanager
def way_through(cluster: LocalCluster, silence: Silence) -> Iterator[int]:
    """The port of a proxy, with the scheduler's rights."""
    identity = cluster.kubeconfig_for(DEFAULT_IDENTITY.user, DEFAULT_IDENTITY.groups)
    opened, ports = threading.Event(), []
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()

    async def serve() -> None:
        way = HttpTransport(find_access(kubeconfig=identity, environment={}))
        proxy = Proxy(way, [silence], DEFAULT_IDENTITY.user, lambda *_: None)
        await proxy.open_door()
        ports.append(proxy.port)
        opened.set()
        await ended.wait()
        proxy.close_door()
        await way.close()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert opened.wait(20)
        yield ports[0]
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()


def test_a_scheduler_that_hears_nothing_is_told_of_by_kind_and_by_nothing_else(tmp_path: Path) -> None:
    listen, silence = free_port(), Silence(Random(0))
    with ExitStack() as stack:
        cluster = stack.enter_context(a_cluster(tmp_path, "silent", Options(kubernetes=KUBERNETES)))
        with cluster.api() as api:
            manifests.install(api)
        port = stack.enter_context(way_through(cluster, silence))
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(NOWHERE.replace("127.0.0.1:1", f"127.0.0.1:{port}"), encoding="utf-8")
        stack.enter_context(a_scheduler(cluster, listen, kubeconfig))
        address = stack.enter_context(prometheus(tmp_path, config=config(tmp_path, listen, [])))
        until(lambda: count(address, "gpufleet_scheduler_leader==1") == 1 and not told(address))
        silent_at_s = time.time()
        silence.active = True
        until(lambda: {(SILENT, "pods"), (SILENT, "nodes")} <= told(address), 240)
        assert [kind for kind in ("pods", "nodes") if is_late(address, SILENT, silent_at_s, kind=kind)] == []
        assert {name for name, _ in told(address)} == {SILENT}
        silence.active = False
        until(lambda: not told(address), 240)
