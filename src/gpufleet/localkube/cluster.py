"""A running local cluster: how to reach it, which processes run for it, and how it ends.

    with LocalCluster.start(folder, name, binaries, options) as cluster:
        cluster.kubeconfig, cluster.url, cluster.api(), cluster.kubeconfig_for("alice", ["team-a"])

The programs belong to a `supervisor`, which stops and removes everything when this process ends or dies,
unless `keep` was called. `binaries` finds the programs, `simulated_nodes` fills the cluster.
"""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from gpufleet.files.regular import read_regular
from gpufleet.localkube import control_plane
from gpufleet.localkube.access import kubeconfig
from gpufleet.localkube.access.api import Api, tls_context
from gpufleet.localkube.access.certificates import Authority
from gpufleet.localkube.access.ports import LOOPBACK, HeldPort
from gpufleet.localkube.control_plane import KUBECONFIG, Component, Options
from gpufleet.localkube.node import configuration, machine
from gpufleet.localkube.node.network import HeldNetwork, NodeNetwork
from gpufleet.localkube.node.real_node import RealNode
from gpufleet.localkube.processes import child, plan
from gpufleet.localkube.processes.child import Child
from gpufleet.localkube.processes.folders import lock_of, try_lock
from gpufleet.localkube.processes.plan import FURNISHED, KEEP, Processes, ProcessPlan, Said
from gpufleet.localkube.processes.process_errors import ClusterError, ProgramFailedError

SERVICE_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"
# The controller manager makes it soon after its start, or later on a busy machine.
SERVICE_ACCOUNT_WAIT_S = 30.0
LEASE = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/{}"
# A scheduler that runs for the first time compiles its kernels.
COMPONENT_WAIT_S = 600.0
POLL_EVERY_S = 0.05
# A component starts for seconds, and looks in between take the processor from it.
COMPONENT_POLL_EVERY_S = 0.2
END_WAIT_S = 60.0
SUPERVISOR_LOG = "supervisor.log"

Say = Callable[[str], None]


def say_nothing(_: str) -> None:
    """Takes progress and writes none of it."""


class LocalCluster:
    """A cluster with a live supervisor, seen from the process that started it or from another."""

    def __init__(
        self, folder: Path, told: ProcessPlan, supervisor: subprocess.Popen[bytes] | None = None
    ) -> None:
        self.folder = folder
        self.name = told.name
        self.kubernetes = told.kubernetes
        self.port = told.port
        self._supervisor = supervisor
        self._context = tls_context(self.authority, folder / "admin.crt", folder / "admin.key")

    @classmethod
    def start(
        cls,
        folder: Path,
        name: str,
        binaries: Mapping[str, Path],
        options: Options | None = None,
        say: Say = say_nothing,
        components: Sequence[Component] = (),
    ) -> "LocalCluster":
        """Start a cluster in ``folder``, which must not exist, and return when it takes pods.

        ``components`` are programs of ours that its supervisor runs too, from `furnished` on.

        Raises ClusterError if the folder is taken or there can be no real node here, ProgramFailedError,
        with the end of a log, if a program does not come up; nothing is left then.
        """
        chosen = options or Options()
        if chosen.real_node:
            machine.check()
        lock = try_lock(lock_of(folder))
        if lock is None:
            raise ClusterError(
                f"the cluster {name} is running, or another command starts or ends it at this moment: see "
                f"`gpufleet status`, then take another name, or end it with `gpufleet down --name {name}`"
            )
        port = HeldPort()
        network: HeldNetwork | None = None
        try:
            network = HeldNetwork.take_free() if chosen.real_node else None
            its = None if network is None else network.network
            told = _made(folder, name, port.number, binaries, chosen, components, its)
            held = () if network is None else (network.fileno(),)
            supervisor = _spawned(folder, (lock, port.fileno(), *held))
        # Interrupts too leave nothing behind.
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            lock_of(folder).unlink(missing_ok=True)
            raise
        finally:
            # The supervisor has inherited them and holds them on; these are our copies.
            if network is not None:
                network.release()
            port.release()
            os.close(lock)
        try:
            _await_ready(supervisor, say)
            cluster = cls(folder, told, supervisor)
            cluster.await_service_account()
        except BaseException:
            _let_go(supervisor)
            raise
        return cluster

    @classmethod
    def at(cls, folder: Path) -> "LocalCluster":
        """The cluster that another process started in this folder."""
        told = plan.read_plan(folder)
        if told is None:
            raise ClusterError(f"there is no cluster in {folder}")
        return cls(folder, told)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The address of its API server."""
        return f"https://{LOOPBACK}:{self.port}"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.folder / KUBECONFIG

    @property
    def authority(self) -> Path:
        """The certificate of the authority that signed the server's, as PEM."""
        return self.folder / "ca.crt"

    def api(self) -> Api:
        """A connection of the administrator's, for one thread; to be closed."""
        return Api(self.port, self._context)

    @property
    def node(self) -> RealNode:
        """The cluster's real node; ClusterError if it has simulated ones only."""
        spec = configuration.read_spec(self.folder)
        if spec is None:
            raise ClusterError(
                f"the cluster {self.name} has no real node; `gpufleet up --real-node` gives one"
            )
        return RealNode(self.folder, spec)

    def signing_authority(self) -> Authority:
        """The authority of its certificates, with the key."""
        certificate = read_regular(self.authority, plan.OWN_FILE_BYTES_MAX)
        return Authority.load(certificate, read_regular(self.folder / "ca.key", plan.OWN_FILE_BYTES_MAX))

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig of a user with nothing but the rights that RBAC gives to it and its groups."""
        authority = self.signing_authority()
        certificate = authority.identity.certificate
        folder = self.folder / "users"
        folder.mkdir(exist_ok=True)
        path = folder / f"{user.replace('/', '_').replace(':', '_')}.kubeconfig"
        context = f"gpufleet-{self.name}"
        kubeconfig.write(path, context, self.url, certificate, authority.client(user, groups))
        return path

    def start_kube_scheduler(self, binary: Path, flags: Sequence[str] = ()) -> Child:
        """Run a kube-scheduler beside the cluster, for comparison; the caller stops it.

        Its log is in the cluster's folder. Call it from a thread that lives as long as it shall.
        """
        command = (str(binary), *control_plane.KUBE_SCHEDULER_FLAGS, *flags)
        log = self.folder / plan.LOGS / "kube-scheduler.log"
        return child.start("kube-scheduler", command, log, folder=self.folder)

    def processes(self) -> Processes | None:
        """The processes of the cluster, as its supervisor last wrote them down."""
        return plan.read_processes(self.folder)

    def pid(self, program: str) -> int:
        """The process of one of its programs."""
        written = self.processes()
        if written is None or program not in written.programs:
            raise ClusterError(f"the cluster {self.name} runs no {program}")
        return written.programs[program].pid

    def await_service_account(self) -> None:
        """Return when a pod can be created in the namespace default: pods need its service account."""
        limit_s = time.monotonic() + SERVICE_ACCOUNT_WAIT_S
        with self.api() as api:
            while time.monotonic() < limit_s:
                if api.request("GET", SERVICE_ACCOUNT)[0] == 200:
                    return
                time.sleep(POLL_EVERY_S)
        log = self.folder / plan.LOGS / "kube-controller-manager.log"
        raise ProgramFailedError(
            f"kube-controller-manager made no service account within {SERVICE_ACCOUNT_WAIT_S:.0f} s; "
            f"the end of its log, {log}:\n{child.log_tail(log)}"
        )

    def furnished(self) -> None:
        """All is in the cluster that shall be there: its components may start."""
        self._tell(FURNISHED)

    def await_component(self, component: Component, unless: Callable[[str], bool] = lambda _: False) -> bool:
        """Whether a component is at work; returns when it is, or when its log's end is ``unless``.

        It is when it holds its lease and its log says ``at_work``.

        ProgramFailedError if it ends or takes too long.
        """
        if component.lease is None:
            return True
        path = LEASE.format(*component.lease)
        log = self.log_of(component)
        limit_s = time.monotonic() + COMPONENT_WAIT_S
        with self.api() as api:
            while not (_is_held(*api.request("GET", path)) and child.has_said(log, component.at_work)):
                written = self.processes()
                its = None if written is None else written.programs.get(component.name)
                if its is not None and its.restarts:
                    what = "ended while it was starting"
                elif unless(child.log_tail(log)):
                    return False
                elif time.monotonic() > limit_s:
                    what = f"was not at work within {COMPONENT_WAIT_S:.0f} s"
                else:
                    time.sleep(COMPONENT_POLL_EVERY_S)
                    continue
                raise ProgramFailedError(
                    f"{component.name} {what}; the end of its log, {log}:\n{child.log_tail(log)}"
                )
        return True

    def log_of(self, component: Component) -> Path:
        """The file that a component logs to."""
        return self.folder / plan.LOGS / f"{component.name}.log"

    def keep(self) -> None:
        """From now on the cluster lives until `persistent.remove`, whatever becomes of this process."""
        self._tell(KEEP)

    def _tell(self, message: bytes) -> None:
        if self._supervisor is None or self._supervisor.stdin is None:
            raise ClusterError(f"the cluster {self.name} belongs to another process")
        try:
            self._supervisor.stdin.write(message)
        except BrokenPipeError as error:
            raise ClusterError(f"the supervisor of the cluster {self.name} is gone") from error

    def stop(self) -> None:
        """End every program and remove the folder; returns when all of it is gone."""
        if self._supervisor is None:
            raise ClusterError(f"the cluster {self.name} belongs to another process")
        _let_go(self._supervisor)


def _made(
    folder: Path,
    name: str,
    port: int,
    binaries: Mapping[str, Path],
    options: Options,
    components: Sequence[Component],
    network: NodeNetwork | None,
) -> ProcessPlan:
    """The new cluster's folder with all that its supervisor needs."""
    try:
        users = {one.name: (one.user, one.groups) for one in components}
        control_plane.prepare(folder, name, port, users, network)
    except FileExistsError as error:
        raise ClusterError(f"{folder} exists already; remove it or choose another name") from error
    programs = control_plane.programs(binaries, port, options, network)
    real = () if network is None else configuration.cluster_programs(folder, lock_of(folder), port, network)
    if network is not None:
        configuration.prepare(folder, network, binaries)
    ours = tuple(one.program for one in components)
    told = ProcessPlan(name, options.kubernetes, port, (*programs, *real, *ours))
    plan.write(folder, plan.PLAN_FILE, told)
    return told


def _spawned(folder: Path, inherited: tuple[int, ...]) -> subprocess.Popen[bytes]:
    """A supervisor for the plan in ``folder``, holding the lock and the port from now on."""
    command = (sys.executable, "-m", "gpufleet.localkube.supervisor", str(folder), str(lock_of(folder)))
    with (folder / plan.LOGS / SUPERVISOR_LOG).open("ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            bufsize=0,
            pass_fds=inherited,
            start_new_session=True,
        )


def _await_ready(supervisor: subprocess.Popen[bytes], say: Say) -> None:
    """Pass on what the supervisor says until all is ready; ProgramFailedError with its story if it fails."""
    if supervisor.stdout is None:
        raise ClusterError("the supervisor has no voice")
    for line in supervisor.stdout:
        said = msgspec.json.decode(line, type=Said)
        if said.kind == "failed":
            raise ProgramFailedError(said.text)
        if said.kind == "ready":
            return
        say(f"started {said.text}")
    raise ProgramFailedError(f"the cluster's supervisor ended with {supervisor.wait()} while starting")


def _let_go(supervisor: subprocess.Popen[bytes]) -> None:
    """Cut the leash and wait until the supervisor has cleaned up; kill it where it does not end."""
    for pipe in (supervisor.stdin, supervisor.stdout):
        if pipe is not None:
            pipe.close()
    with contextlib.suppress(ProcessLookupError):
        supervisor.send_signal(signal.SIGTERM)
    try:
        supervisor.wait(END_WAIT_S)
    except subprocess.TimeoutExpired:
        # Its children die with it, but for the process that clears away a real node.
        supervisor.kill()
        supervisor.wait()
        raise ClusterError("the cluster's supervisor did not end and was killed") from None


def _is_held(status: int, body: bytes) -> bool:
    """Whether this answer is a lease with a holder."""
    return status == 200 and bool(msgspec.json.decode(body)["spec"].get("holderIdentity"))


def wait_for_exit(pid: int, wait_s: float) -> bool:
    """Whether the process, no child of ours, ended within this time."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], wait_s)[0])
    finally:
        os.close(descriptor)
