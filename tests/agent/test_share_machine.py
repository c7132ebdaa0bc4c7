"""Whatever dies, lags or is lost, no share is given twice and each container prints its own.

A state machine over one node: a scheduler that books what it grants (and an older leader that does not
know of all that), a kubelet, an API server, an agent that dies at any point, files that are lost.
"""

import asyncio
import contextlib
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from gpufleet.agent.errors import RefusedError
from gpufleet.agent.kubelet_checkpoint import FILE
from gpufleet.devices.health import Verdict
from gpufleet.kube.codec.grant import granted_devices
from gpufleet.model.grant import GrantedDevice
from tests.agent.node_values import FRACTIONS, a_gpu, a_node, a_share
from tests.agent.share_world import SharedNode

USABLE_MIB = 80_000
SIZES = st.sampled_from([(100, 8_000), (250, 20_000), (500, 40_000), (750, 60_000), (0, 50_000)])
DEVICES = st.sampled_from([("GPU-0",), ("GPU-1",), ("GPU-0", "GPU-1")])
NAMES = st.sampled_from(["train", "serve", "notebook"])


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

    def _place(self, name: str, parts: tuple[GrantedDevice, ...], shape: str, epoch: int) -> str:
        assume(name not in {pod.name for pod in self.node.api.values()})
        for part in parts:
            milli, memory_mib = self._granted(part.id, epoch)
            assume(milli + part.gpu_milli <= 1000)
            assume(memory_mib + (part.memory_mib or 0) <= USABLE_MIB)
        match shape:
            case "one":
                return self.node.bind(name, epoch, main=parts)
            case "two":
                return self.node.bind(name, epoch, main=parts[:1], side=parts[-1:])
            case _:
                return self.node.bind(
                    name, epoch, **{"init-a": parts, "init-b": parts[:1], "main": parts[:1]}
                )

    @rule(target=pods, name=NAMES, size=SIZES, devices=DEVICES, shape=st.sampled_from(["one", "two", "init"]))
    def the_leader_places_a_pod(
        self, name: str, size: tuple[int, int], devices: tuple[str, ...], shape: str
    ) -> str:
        assume(shape != "two" or len(devices) == 2)
        return self._place(name, tuple(a_share(one, *size) for one in devices), shape, self.epoch)

    @rule(target=pods, name=NAMES, size=SIZES, devices=DEVICES)
    def an_older_leaders_bind_arrives_late(
        self, name: str, size: tuple[int, int], devices: tuple[str, ...]
    ) -> str:
        return self._place(name, tuple(a_share(one, *size) for one in devices), "one", self.epoch - 1)

    @rule()
    def another_leader_takes_over(self) -> None:
        self.epoch += 1

    @rule(uid=pods, answer_lost=st.booleans())
    def the_kubelet_admits(self, uid: str, answer_lost: bool) -> None:
        assume(uid in self.node.api and uid not in self.admitted and not self.node.api[uid].finished)
        self.admitted.add(uid)
        self.loop.run(self._admit(uid, answer_lost))

    async def _admit(self, uid: str, answer_lost: bool) -> None:
        await self.node.admit(uid, answer_lost=answer_lost)

    @rule(uid=pods, position=st.integers(0, 2), dies=st.sampled_from(["nobody", "before", "after"]))
    def a_container_starts(self, uid: str, position: int, dies: str) -> None:
        containers = [one for holder, one in self.node.allocations if holder == uid]
        assume(uid in self.node.api and not self.node.api[uid].finished and containers)
        container = containers[position % len(containers)]
        if dies == "before":
            self.node.new_process()
        with contextlib.suppress(RefusedError):
            self.loop.run(self.node.prepare(uid, container))
        if dies == "after":
            self.node.new_process()
        # The runtime tries it whatever was answered: only the file counts.
        with contextlib.suppress(FileNotFoundError):
            self.node.run(uid, container)

    @rule(uid=pods)
    def a_pod_ends(self, uid: str) -> None:
        assume(uid in self.node.api and not self.node.api[uid].finished)
        self.node.finish(uid)

    @rule(uid=pods)
    def a_pod_is_deleted(self, uid: str) -> None:
        assume(uid in self.node.api)
        self.node.remove(uid)

    @rule(saves=st.booleans())
    def the_agent_dies(self, saves: bool) -> None:
        if saves:
            self._save()
        self.node.new_process()

    @rule(damage=st.sampled_from([b"", b"{", b"\x00" * 64]))
    def the_checkpoint_is_damaged(self, damage: bytes) -> None:
        (self.node.folder / "checkpoint.json").write_bytes(damage)

    @rule(damage=st.sampled_from([b"", b"{"]))
    def the_kubelets_record_cannot_be_read(self, damage: bytes) -> None:
        (self.node.record / FILE).write_bytes(damage)

    @rule(stuck=st.booleans())
    def an_older_record_lands_last(self, stuck: bool) -> None:
        self.node.record_stuck = stuck
        self.node.write_record()

    @rule(down=st.booleans())
    def the_api_server_comes_and_goes(self, down: bool) -> None:
        self.node.api_down = down

    @rule(silent=st.booleans())
    def the_kubelet_comes_and_goes(self, silent: bool) -> None:
        self.node.kubelet_silent = silent

    @rule()
    def the_copies_catch_up(self) -> None:
        self.node.sync()

    @rule(sick=st.booleans())
    def a_card_fails_or_recovers(self, sick: bool) -> None:
        health: dict[str, Any] = {"health": Verdict.UNHEALTHY, "reason": "Xid 79"} if sick else {}
        self.node.gpus.publish(a_node(a_gpu("GPU-0", FRACTIONS, **health), a_gpu("GPU-1", FRACTIONS)))

    @rule()
    def what_is_left_is_swept_up(self) -> None:
        self.loop.run(self.node.steward.sweep())

    @rule()
    def all_is_at_rest(self) -> None:
        """I4: after the faults, what was given is what living pods were granted, and all can start."""
        node = self.node
        node.api_down = node.kubelet_silent = node.record_stuck = False
        node.gpus.publish(a_node(a_gpu("GPU-0", FRACTIONS), a_gpu("GPU-1", FRACTIONS)))
        node.write_record()
        node.sync()
        self.what_is_left_is_swept_up()
        given = node.steward._files.given
        living = {uid for uid, pod in node.api.items() if not pod.finished}
        assert {one.pod_uid for one in given.values()} <= living
        for uid, container in sorted(node.allocations):
            if uid in living and not self._disputed(uid):
                assert self.loop.run(node.start(uid, container))["GPUFLEET_POD_UID"] == uid

    def _disputed(self, uid: str) -> bool:
        """Whether leaders granted more of one of its cards than there is."""
        grant = self.node.api[uid].grant
        assert grant is not None
        totals = [self._granted(part.id, self.epoch) for part in granted_devices(grant)]
        return any(milli > 1000 or memory_mib > USABLE_MIB for milli, memory_mib in totals)

    def _save(self) -> None:
        async def keep() -> None:
            task = asyncio.create_task(self.node.steward.run())
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
