"""The MPS control daemon of each GPU that is shared by MPS.

One daemon a GPU, with folders of its own for pipes and logs, so that every GPU has limits of its own and
one daemon that dies concerns its GPU alone. The daemon sees only its GPU, which is device 0 to it. It is
asked every few seconds: one that does not answer is started again, with its limits, after a pause that grows.
It goes on when the agent ends, because its clients do, and the next agent finds it; one whose GPU has another
plan is told to quit.

Containers get the folder of pipes (``access``). Without a daemon a CUDA program runs all the same, but
without limits: ``ready`` says for which GPUs a container may be started.

The compute mode EXCLUSIVE_PROCESS, which keeps programs that go round the daemon off the GPU, is a setting
of the GPU: it is set only where that is allowed, and set back when the plan leaves.
"""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

import msgspec

from gpufleet.agent.device_plugin.delivery import Addition
from gpufleet.agent.device_plugin.unit_allocator import AllocateResponse, HostMount
from gpufleet.agent.sharing.programs import Programs
from gpufleet.agent.state.node_state import Gpu, NodeGpus
from gpufleet.agent.state.state_errors import RefusedError
from gpufleet.agent.state.topic import Topic, any_change
from gpufleet.devices.sharing.delivery_options import DeliveryOptions
from gpufleet.devices.sharing.plan import Mps
from gpufleet.kube.clock import Clock
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.model_errors import WorldError

LOG = logging.getLogger(__name__)
# The programs of NVIDIA's driver that start daemons and set the compute mode.
CONTROL = "nvidia-cuda-mps-control"
SETTINGS = "nvidia-smi"
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - where CUDA looks for it
IN_CONTAINER = "/run/gpufleet/mps/pipe"
POLL_EVERY_S = 5.0
"""A daemon that ended is noticed within this time."""

# A daemon that ends at once would be started in a loop: pauses double from the first to the longest.
PAUSE_FIRST_S = 1.0
PAUSE_MOST_S = 60.0
STEADY_AFTER_S = 60.0
"""A daemon that ran for so long is started again without a long pause."""

# A driver that hangs would hold its programs for ever.
ANSWER_WITHIN_S = 10.0
# Five seconds in all for a daemon to begin.
ANSWER_TRIES = 20
ASK_AGAIN_S = 0.25


class MpsMount(msgspec.Struct, frozen=True):
    """A folder of the node in a container."""

    host_path: str
    container_path: str


class MpsAccess(msgspec.Struct, frozen=True):
    """What a container needs to be a client: environment, and mounts that it may write to."""

    environment: dict[str, str]
    mounts: tuple[MpsMount, ...]


class MpsOptions(msgspec.Struct, frozen=True):
    """Where things are. ``root`` is the folder of pipes and logs, under the same path here and on the node.

    ``programs`` is the folder of NVIDIA's programs. ``shared_memory`` is the node's folder that is /dev/shm
    to the daemons: clients must have the same. ``exclusive`` allows the GPU's compute mode to be set.
    """

    root: Path = Path("/run/nvidia/mps")
    programs: Path = Path("/usr/bin")
    shared_memory: Path = Path(SHARED_MEMORY)
    exclusive: bool = False


OPTIONS = MpsOptions()


class DaemonError(WorldError):
    """An MPS daemon does not run as it should."""


class MpsDaemons:
    """Keeps one daemon for each GPU whose plan is MPS."""

    def __init__(
        self,
        gpus: Topic[NodeGpus],
        delivery: Topic[DeliveryOptions | None],
        programs: Programs,
        clock: Clock,
        options: MpsOptions = OPTIONS,
    ) -> None:
        self.gpus = gpus
        self.delivery = delivery
        self.programs = programs
        self.clock = clock
        self.options = options
        self.ready: Topic[frozenset[DeviceId]] = Topic(frozenset())
        """The GPUs whose daemon answers and has its limits."""

        self.problems: Topic[tuple[str, ...]] = Topic(())
        self._problem_of: dict[DeviceId, str] = {}
        self._kept: dict[DeviceId, tuple[Mps, asyncio.Task[None]]] = {}
        self._root = self.root

    @property
    def root(self) -> Path:
        """The folder of pipes and logs: that of NVIDIA's config file, where there is one."""
        found = self.delivery.value
        return self.options.root if found is None else Path(found.mps_root)

    def access(self, uuid: DeviceId) -> MpsAccess:
        """What a container with a replica of this GPU gets beside the GPU itself.

        A program can be a client of one daemon only.
        """
        pipes = MpsMount(str(self.root / uuid / "pipe"), IN_CONTAINER)
        shared = MpsMount(str(self.options.shared_memory), SHARED_MEMORY)
        return MpsAccess({"CUDA_MPS_PIPE_DIRECTORY": IN_CONTAINER}, (pipes, shared))

    async def run(self) -> None:
        """Keep them until cancelled; the daemons go on for their clients."""
        looked = False
        try:
            async for _ in any_change(self.gpus, self.delivery):
                gpus = self.gpus.value.gpus
                # Daemons that an earlier agent left go on, also where their GPUs are shared otherwise by now.
                if gpus and not looked:
                    looked = True
                    await self._end_orphans()
                wanted = {gpu.uuid: gpu.plan.mode for gpu in gpus if isinstance(gpu.plan.mode, Mps)}
                # The folder of the pipes is another one: clients would look for them in the wrong place.
                moved = self._root != self.root
                for uuid, (plan, _) in list(self._kept.items()):
                    if moved or wanted.get(uuid) != plan:
                        await self._leave(uuid)
                self._root = self.root
                for uuid, plan in wanted.items():
                    if uuid not in self._kept:
                        self._kept[uuid] = (plan, asyncio.create_task(self._keep(uuid, plan)))
        finally:
            tasks = [task for _, task in self._kept.values()]
            self._kept.clear()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _end_orphans(self) -> None:
        """Daemons that an earlier agent left, of GPUs that are shared in another way by now."""
        wanted = {gpu.uuid for gpu in self.gpus.value.gpus if isinstance(gpu.plan.mode, Mps)}
        for name in _running(self._root):
            if name not in wanted:
                await self._quit(DeviceId(name))

    async def _leave(self, uuid: DeviceId) -> None:
        """The GPU is offered in another way: its daemon ends."""
        task = self._kept.pop(uuid)[1]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        self.ready.publish(self.ready.value - {uuid})
        await self._quit(uuid)
        self._tell(uuid, "")

    async def _quit(self, uuid: DeviceId) -> None:
        try:
            await self._command(uuid, "quit")
            await self._set_compute_mode(uuid, "DEFAULT")
        except (OSError, TimeoutError, DaemonError) as problem:
            LOG.warning("an MPS daemon did not end well", extra={"gpu": uuid, "problem": str(problem)})

    async def _keep(self, uuid: DeviceId, plan: Mps) -> None:
        """See that a daemon runs, again and again."""
        pause_s = PAUSE_FIRST_S
        while True:
            began_s = self.clock.monotonic_s()
            try:
                await self._live(uuid, plan)
            except (OSError, TimeoutError, DaemonError) as problem:
                self.ready.publish(self.ready.value - {uuid})
                self._tell(uuid, str(problem) or type(problem).__name__)
            # Only after a while: a daemon that dies at once is started after longer and longer pauses.
            if self.clock.monotonic_s() - began_s >= STEADY_AFTER_S:
                pause_s = PAUSE_FIRST_S
            await self.clock.sleep(pause_s)
            pause_s = min(PAUSE_MOST_S, 2 * pause_s)

    async def _live(self, uuid: DeviceId, plan: Mps) -> None:
        """One daemon, from its start until it does not answer: raises DaemonError, OSError, TimeoutError."""
        environment = self._environment(uuid)
        _make_folders(environment["CUDA_MPS_PIPE_DIRECTORY"], environment["CUDA_MPS_LOG_DIRECTORY"])
        if not await self._answers(uuid):
            await self._start(uuid)
        # A daemon that was found running may have the limits of another plan.
        await self._command(uuid, f"set_default_active_thread_percentage {plan.threads_pct}")
        if plan.memory_mib is not None:
            await self._command(uuid, f"set_default_device_pinned_mem_limit 0 {plan.memory_mib}M")
        self._tell(uuid, "")
        self.ready.publish(self.ready.value | {uuid})
        LOG.info("MPS is ready", extra={"gpu": uuid, "clients": plan.clients})
        while await self._answers(uuid):
            await self.clock.sleep(POLL_EVERY_S)
        raise DaemonError("the daemon does not answer any more")

    async def _start(self, uuid: DeviceId) -> None:
        """Start a daemon and wait until it answers."""
        await self._set_compute_mode(uuid, "EXCLUSIVE_PROCESS")
        argv = [str(self.options.programs / CONTROL), "-d"]
        ran = await self.programs.run(argv, self._environment(uuid), "", ANSWER_WITHIN_S)
        if ran.code:
            raise DaemonError(f"the daemon did not start: {ran.output or f'exit code {ran.code}'}")
        for _ in range(ANSWER_TRIES):
            if await self._answers(uuid):
                return
            await self.clock.sleep(ASK_AGAIN_S)
        raise DaemonError("the daemon was started and does not answer")

    async def _answers(self, uuid: DeviceId) -> bool:
        try:
            await self._command(uuid, "get_default_active_thread_percentage")
        except DaemonError:
            return False
        return True

    async def _command(self, uuid: DeviceId, command: str) -> None:
        """One command to a daemon. Raises DaemonError where it is not there, or says no."""
        argv = [str(self.options.programs / CONTROL)]
        ran = await self.programs.run(argv, self._environment(uuid), f"{command}\n", ANSWER_WITHIN_S)
        if ran.code:
            raise DaemonError(f"{command}: {ran.output or f'exit code {ran.code}'}")

    async def _set_compute_mode(self, uuid: DeviceId, mode: str) -> None:
        if not self.options.exclusive:
            return
        argv = [str(self.options.programs / SETTINGS), "-i", uuid, "-c", mode]
        ran = await self.programs.run(argv, {}, "", ANSWER_WITHIN_S)
        if ran.code:
            raise DaemonError(f"the compute mode {mode} could not be set: {ran.output}")

    def _environment(self, uuid: DeviceId) -> dict[str, str]:
        folder = self._root / uuid
        return {
            "CUDA_VISIBLE_DEVICES": uuid,
            "CUDA_MPS_PIPE_DIRECTORY": str(folder / "pipe"),
            "CUDA_MPS_LOG_DIRECTORY": str(folder / "log"),
        }

    def _tell(self, uuid: DeviceId, problem: str) -> None:
        if problem and self._problem_of.get(uuid) != problem:
            LOG.error("MPS does not run", extra={"gpu": uuid, "problem": problem})
        self._problem_of[uuid] = problem
        said = [f"MPS of {one}: {words}" for one, words in sorted(self._problem_of.items()) if words]
        self.problems.publish(tuple(said))


def _make_folders(*paths: str) -> None:
    for path in paths:
        # Clients of any user must reach the pipes.
        Path(path).mkdir(mode=0o755, parents=True, exist_ok=True)


def _running(root: Path) -> list[str]:
    """The folders of daemons that run, by the socket that each makes."""
    return sorted(path.parent.parent.name for path in root.glob("GPU-*/pipe/control"))


def mps_clients(daemons: MpsDaemons) -> Addition:
    """The addition for units of some GPUs. It raises RefusedError where there is no daemon to go through."""

    def addition(gpus: Sequence[Gpu]) -> AllocateResponse:
        shared = [gpu.uuid for gpu in gpus if isinstance(gpu.plan.mode, Mps)]
        if not shared:
            return AllocateResponse()
        if len(shared) > 1:
            raise RefusedError(
                f"a container can be a client of MPS on one GPU only, and these are on {' and '.join(shared)}"
            )
        if shared[0] not in daemons.ready.value:
            raise RefusedError(f"the MPS daemon of {shared[0]} does not run yet")
        access = daemons.access(shared[0])
        mounts = tuple(
            HostMount(mount.container_path, mount.host_path, read_only=False) for mount in access.mounts
        )
        return AllocateResponse(environment=access.environment, mounts=mounts)

    return addition
