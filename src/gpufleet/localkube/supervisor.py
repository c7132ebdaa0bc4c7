"""The process that runs the programs of one cluster, so that nothing is left whichever process dies.

``python -m gpufleet.localkube.supervisor FOLDER LOCK`` is started by `starting` with the cluster's plan. It
holds the cluster's lock and port, starts the programs, waits for the API server, and starts again what ends
by itself. Its standard input is a leash: if the starter's end closes before it said "keep", the starter gave
up or was killed, and everything is stopped and removed. If this process itself is killed, the kernel kills
its children (`child`), but for those on a leash of its own, which clear away what the kernel does not
(`node.node_supervisor`). The order of its end: programs, folder, lock.
"""

import os
import select
import shutil
import signal
import sys
import time
from pathlib import Path

import msgspec

from gpufleet.localkube.access.api import Api, tls_context
from gpufleet.localkube.processes import plan
from gpufleet.localkube.processes.plan import Process, Processes, ProcessPlan, Said, Stage
from gpufleet.localkube.processes.process_errors import ClusterError, ProgramFailedError
from gpufleet.localkube.processes.supervised_program import SupervisedProgram

# While programs start: each stage waits for the one before.
POLL_EVERY_S = 0.1
# How late a dead program is noticed.
REST_S = 0.5


class Ended(Exception):  # noqa: N818  no error: the way out of the loop
    """The cluster shall end: it was asked to, or its starter is gone."""


class Supervisor:
    """Runs one plan until it is told to end."""

    def __init__(self, folder: Path, process_plan: ProcessPlan) -> None:
        self.folder = folder
        self.process_plan = process_plan
        self.programs = [SupervisedProgram(program, folder) for program in process_plan.programs]
        self.leash: int | None = sys.stdin.fileno()
        self.ended = False

    def run(self) -> None:
        """Start everything, report, and stay until the end is asked for."""
        try:
            self.start(Stage.NOTHING)
            self.wait_for_api()
            self.start(Stage.API_READY)
        except ProgramFailedError as error:
            self.say("failed", str(error))
            return
        self.say("ready")
        while True:
            self.pause(REST_S)
            if sum(one.restart_if_ended() for one in self.programs):
                self.write_down()

    def start(self, stage: Stage) -> None:
        """Start the programs of a stage."""
        for one in self.programs:
            if one.program.after is stage:
                one.start()
                self.say("started", one.program.name)
        self.write_down()

    def wait_for_api(self) -> None:
        """Return when /readyz says ok; ProgramFailedError if a program ends before, or after too long."""
        context = tls_context(self.folder / "ca.crt", self.folder / "admin.crt", self.folder / "admin.key")
        limit_s = time.monotonic() + self.process_plan.start_limit_s
        answer = "never answered"
        while time.monotonic() < limit_s:
            for one in self.programs:
                # A program that ends at the start will not do better: its log says why.
                if one.child is not None and (code := one.child.exit_code) is not None:
                    raise one.child.failed(f"ended with {code} while the cluster was starting")
            try:
                with Api(self.process_plan.port, context, timeout_s=5) as api:
                    status, body = api.request("GET", "/readyz")
                if status == 200:
                    return
                answer = body.decode(errors="replace").strip()
            except ClusterError as error:
                answer = str(error)
            self.pause(POLL_EVERY_S)
        server = next(
            one.child for one in self.programs if one.program.name == "kube-apiserver" and one.child
        )
        raise server.failed(f"was not ready within {self.process_plan.start_limit_s:.0f} s ({answer})")

    def pause(self, wait_s: float) -> None:
        """Wait a moment; Ended where a signal came or the leash was cut."""
        watched = [] if self.leash is None else [self.leash]
        readable, _, _ = select.select(watched, [], [], wait_s)
        if readable:
            self.listen(os.read(readable[0], 100))
        if self.ended:
            raise Ended

    def listen(self, heard: bytes) -> None:
        """Do what the starter says; it may say several things at once, and saying nothing ends it all."""
        if not heard:
            raise Ended
        for said in heard.splitlines(keepends=True):
            if said == plan.FURNISHED:
                self.start(Stage.FURNISHED)
            elif said == plan.KEEP:
                self.leash = None

    def end(self, *_: object) -> None:
        """A signal asks for the end; `pause` carries it out."""
        self.ended = True

    def stop(self) -> None:
        """End the programs in the reverse order of their start: the store outlives its writers."""
        for one in reversed(self.programs):
            if one.child is not None:
                one.child.stop()

    def write_down(self) -> None:
        """Write the running processes into a file, for `status` and for `down`."""
        programs = {
            one.program.name: process(one.child.pid, one.restarts)
            for one in self.programs
            if one.child is not None
        }
        plan.write(self.folder, plan.PROCESSES_FILE, Processes(process(os.getpid(), 0), programs))

    def say(self, kind: str, text: str = "") -> None:
        """One line to the starter, if it still listens."""
        try:
            os.write(sys.stdout.fileno(), msgspec.json.encode(Said(kind, text)) + b"\n")
        except BrokenPipeError:
            return


def process(pid: int, restarts: int) -> Process:
    """A process of ours as it is written down."""
    return Process(pid, plan.started_ticks(pid) or 0, restarts)


def main(folder: Path, lock: Path) -> None:
    """Run the plan in ``folder``; when it ends, remove the folder and the lock."""
    process_plan = plan.read_plan(folder)
    if process_plan is None:
        raise SystemExit(f"{folder}: no plan to run")
    supervisor = Supervisor(folder, process_plan)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, supervisor.end)
    try:
        supervisor.run()
    except Ended:
        pass
    finally:
        try:
            supervisor.stop()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            lock.unlink(missing_ok=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
