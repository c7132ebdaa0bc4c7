"""Whatever dies, lags or is lost, no share is given twice and each container prints its own.

A state machine over one node: a scheduler that books what it grants (and an older leader that does not
know of all that), a kubelet, an API server, an agent that dies at any point, files that are lost.
"""

import asyncio
import contextlib
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, MultipleResults, RuleBasedStateMachine, invariant, multiple, rule

from gpufleet.agent.kubelet.kubelet_checkpoint import FILE
from gpufleet.agent.state.state_errors import RefusedError
from gpufleet.devices.health import Verdict
from gpufleet.kube.codec.grant import granted_devices
from gpufleet.model.grant import GrantedDevice
from tests.agent.node_values import FRACTIONS, a_gpu, a_node, a_share
from tests.agent.share_world import SharedNode

USABLE_MIB = 80_000
SIZES = st.sampled_from([(250, 20_000), (500, 40_000), (750, 60_000), (1000, 80_000), (0, 50_000)])
DEVICES = st.sampled_from([("GPU-0",), ("GPU-1",), ("GPU-0", "GPU-1")])
NAMES = st.sampled_from(["train", "serve", "notebook", "test"])
SHAPES = st.sampled_from(["one", "two", "init"])
DIES = st.sampled_from(["nobody", "before", "between"])
MOSTLY = st.sampled_from([True, True, True, False])
FAULTS = (
    "checkpoint damaged",
    "checkpoint lost",
    "kubelet's record damaged",
    "kubelet's record old",
    "API server away",
    "kubelet silent",
    "card sick",
)


class _Shares(RuleBasedStateMachine):
    """The node and its stories."""

    pods: Bundle[str] = Bundle("pods")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.loop = asyncio.Runner()
        self.node = SharedNode(Path(self.folder.name))
        self.epoch = 2
        self.admitted: set[str] = set()

    def teardown(self) -> None:
        self.loop.close()
        self.folder.cleanup()

    def _lives(self, uid: str) -> bool:
        return uid in self.node.api and not self.node.api[uid].finished

    def _granted(self, device: str, epoch: int) -> tuple[int, int]:
        """What unfinished pods were granted of a card by this leader and by those before it."""
        parts = [
            part
            for pod in self.node.api.values()
            if not pod.finished and pod.grant is not None and pod.grant.epoch <= epoch
            for part in granted_devices(pod.grant)
            if part.id == device
        ]
        return sum(part.gpu_milli for part in parts), sum(part.memory_mib or 0 for part in parts)

    def _placed(
        self, name: str, parts: tuple[GrantedDevice, ...], shape: str, epoch: int, admitted: bool
    ) -> str | MultipleResults[str]:
        """Bind a pod, if its name is free and the leader believes that it fits; perhaps admit it too."""
        if name in {pod.name for pod in self.node.api.values()}:
            return multiple()
        for part in parts:
            milli, memory_mib = self._granted(part.id, epoch)
            if milli + part.gpu_milli > 1000 or memory_mib + (part.memory_mib or 0) > USABLE_MIB:
                return multiple()
        uid = self._bound(name, parts, shape, epoch)
        if admitted:
            self.the_kubelet_admits(uid, answer_lost=False)
        return uid

    def _bound(self, name: str, parts: tuple[GrantedDevice, ...], shape: str, epoch: int) -> str:
        match shape:
            case "one":
                return self.node.bind(name, epoch, main=parts)
            case "two":
                return self.node.bind(name, epoch, main=parts[:1], side=parts[-1:])
            case _:
                return self.node.bind(name, epoch, init_a=parts, init_b=parts[:1], main=parts[:1])

    @rule(target=pods, name=NAMES, size=SIZES, devices=DEVICES, shape=SHAPES, admitted=MOSTLY)
    def the_leader_places_a_pod(
        self, name: str, size: tuple[int, int], devices: tuple[str, ...], shape: str, admitted: bool
    ) -> str | MultipleResults[str]:
        chosen = "one" if len(devices) == 1 and shape == "two" else shape
        return self._placed(name, tuple(a_share(one, *size) for one in devices), chosen, self.epoch, admitted)

    @rule(target=pods, name=NAMES, size=SIZES, devices=DEVICES, admitted=MOSTLY)
    def an_older_leaders_bind_arrives_late(
        self, name: str, size: tuple[int, int], devices: tuple[str, ...], admitted: bool
    ) -> str | MultipleResults[str]:
        return self._placed(
            name, tuple(a_share(one, *size) for one in devices), "one", self.epoch - 1, admitted
        )

    @rule(target=pods, device=st.sampled_from(["GPU-0", "GPU-1"]))
    def two_leaders_grant_the_same_card(self, device: str) -> MultipleResults[str]:
        number, part = len(self.node.names), (a_share(device, 750, 60_000),)
        newer = self._placed(f"newer-{number}", part, "one", self.epoch, admitted=True)
        older = self._placed(f"older-{number}", part, "one", self.epoch - 1, admitted=True)
        return multiple(*(one for one in (newer, older) if isinstance(one, str)))

    @rule()
    def another_leader_takes_over(self) -> None:
        self.epoch += 1

    @rule(uid=pods, answer_lost=st.booleans())
    def the_kubelet_admits(self, uid: str, answer_lost: bool) -> None:
        if uid in self.admitted or not self._lives(uid):
            return
        self.admitted.add(uid)
        self.loop.run(self._admit(uid, answer_lost))

    async def _admit(self, uid: str, answer_lost: bool) -> None:
        await self.node.admit(uid, answer_lost=answer_lost)

    @rule(uid=pods, position=st.integers(0, 2), dies=DIES)
    def a_container_starts(self, uid: str, position: int, dies: str) -> None:
        containers = [one for holder, one in self.node.allocations if holder == uid]
        if not self._lives(uid) or not containers:
            return
        self._start(uid, containers[position % len(containers)], dies)

    def _start(self, uid: str, container: str, dies: str) -> None:
        if dies == "before":
            self.node.new_process()
        with contextlib.suppress(RefusedError):
            self.loop.run(self.node.prepare(uid, container))
        if dies == "between":
            self.node.new_process()
        # The runtime tries it whatever was answered: only the file counts.
        with contextlib.suppress(FileNotFoundError):
            self.node.run(uid, container)

    @rule(data=st.data(), dies=DIES)
    def all_start_in_any_order(self, data: st.DataObject, dies: str) -> None:
        order = data.draw(st.permutations(sorted(self.node.allocations)))
        for uid, container in order:
            if self._lives(uid):
                self._start(uid, container, dies)

    @rule(uid=pods, deleted=st.booleans())
    def a_pod_ends(self, uid: str, deleted: bool) -> None:
        if deleted and uid in self.node.api:
            self.node.remove(uid)
        elif self._lives(uid):
            self.node.finish(uid)

    @rule(saves=st.booleans())
    def the_agent_dies(self, saves: bool) -> None:
        if saves:
            self._save()
        self.node.new_process()

    @rule(fault=st.sampled_from(FAULTS))
    def something_fails(self, fault: str) -> None:
        node = self.node
        match fault:
            case "checkpoint damaged":
                (node.folder / "checkpoint.json").write_bytes(b"{")
            case "checkpoint lost":
                (node.folder / "checkpoint.json").unlink(missing_ok=True)
            case "kubelet's record damaged":
                (node.record / FILE).write_bytes(b"{")
            case "kubelet's record old":
                node.record_stuck = True
            case "API server away":
                node.api_down = True
            case "kubelet silent":
                node.kubelet_silent = True
            case "card sick":
                sick = a_gpu("GPU-0", FRACTIONS, health=Verdict.UNHEALTHY, reason="Xid 79")
                node.gpus.publish(a_node(sick, a_gpu("GPU-1", FRACTIONS)))

    @rule(agent=st.sampled_from(["runs", "starts anew", "loses its folder"]))
    def the_kubelet_forgets(self, agent: str) -> None:
        """All else had heard of what ran before."""
        node = self.node
        self._recover()
        node.sync()
        if agent == "loses its folder":
            node.lose_folder()
        if agent != "runs":
            node.new_process()
        for uid in list(node.api):
            node.tell(uid)
        self.loop.run(node.kubelet_forgets())
        node.sync()

    @rule()
    def all_recovers(self) -> None:
        self._recover()

    @rule()
    def the_copies_catch_up(self) -> None:
        self.node.sync()

    @rule()
    def what_is_left_is_swept_up(self) -> None:
        self.loop.run(self.node.allocator.sweep())

    @rule()
    def all_is_at_rest(self) -> None:
        """I4: after the faults, what was given is what living pods were granted, and all can start."""
        node = self.node
        self._recover()
        node.sync()
        self.what_is_left_is_swept_up()
        given = node.allocator._files.given
        living = {uid for uid, pod in node.api.items() if not pod.finished}
        assert {one.pod_uid for one in given.values()} <= living
        for uid, container in sorted(node.allocations):
            if uid in living and not self._disputed(uid):
                assert self.loop.run(node.start(uid, container))["GPUFLEET_POD_UID"] == uid

    def _recover(self) -> None:
        self.node.api_down = self.node.kubelet_silent = self.node.record_stuck = False
        self.node.gpus.publish(a_node(a_gpu("GPU-0", FRACTIONS), a_gpu("GPU-1", FRACTIONS)))
        self.node.write_record()

    def _disputed(self, uid: str) -> bool:
        """Whether leaders granted more of one of its cards than there is."""
        grant = self.node.api[uid].grant
        assert grant is not None
        totals = [self._granted(part.id, self.epoch) for part in granted_devices(grant)]
        return any(milli > 1000 or memory_mib > USABLE_MIB for milli, memory_mib in totals)

    def _save(self) -> None:
        async def keep() -> None:
            task = asyncio.create_task(self.node.allocator.run())
            await asyncio.sleep(0)
            await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        self.loop.run(keep())

    @invariant()
    def no_card_is_given_beyond_its_capacity(self) -> None:
        """I1, judged by what the containers themselves print."""
        used: dict[str, dict[str, tuple[int, int]]] = {}
        for (uid, _), printed in self.node.running.items():
            millis = map(int, printed["GPUFLEET_GPU_MILLI"].split(","))
            memories = map(int, printed["GPUFLEET_MEMORY_MIB"].split(","))
            for device, *part in zip(printed["GPUFLEET_DEVICES"].split(","), millis, memories, strict=True):
                used.setdefault(device, {})[uid] = (part[0], part[1])
        for parts in used.values():
            assert sum(milli for milli, _ in parts.values()) <= 1000
            assert sum(memory_mib for _, memory_mib in parts.values()) <= USABLE_MIB

    @invariant()
    def no_slot_is_in_two_running_pods(self) -> None:
        """Containers of one pod may have the same: those before main lend theirs."""
        owner: dict[str, str] = {}
        for uid, container in self.node.running:
            for slot in self.node.slots[uid, container]:
                assert owner.setdefault(slot, uid) == uid, slot

    @invariant()
    def each_container_prints_its_own_grant(self) -> None:
        for (uid, container), printed in self.node.running.items():
            grant = self.node.api[uid].grant
            assert grant is not None
            parts = next(one.devices for one in grant.containers if one.container == container)
            assert (printed["GPUFLEET_POD_UID"], printed["GPUFLEET_CONTAINER"]) == (uid, container)
            assert printed["GPUFLEET_DEVICES"] == ",".join(part.id for part in parts)
            assert printed["GPUFLEET_GPU_MILLI"] == ",".join(str(part.gpu_milli) for part in parts)


TestShares = _Shares.TestCase
TestShares.settings = settings(max_examples=60, stateful_step_count=40)
