"""Whatever a server does, a mirror keeps its promises, and in the end it agrees with the server."""

# ruff: noqa: D102 - a rule's name is its sentence, as a test's is.

import asyncio
import random
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from gpufleet.kube.client import Client
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.mirror import Mirror, Pace
from gpufleet.kube.mirror_changes import (
    Appeared,
    Change,
    Changed,
    Listed,
    Unreadable,
    UnreadableGone,
    Vanished,
)
from gpufleet.kube.resources import PODS
from tests.kube.model_server import ModelServer
from tests.kube.scripted_transport import BROKEN, UNREACHABLE, refusal
from tests.kube.virtual_time import VirtualTimeLoop

NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
SILENCE_S = 45.0
SETTLED_S = 400.0


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    """Metadata."""

    name: str
    namespace: str
    uid: str
    resource_version: str


class Thing(msgspec.Struct, frozen=True):
    """A kind whose size must be a number to be readable."""

    metadata: Meta
    size: int


class Witness:
    """Hears what a mirror tells and holds it against the guarantees."""

    def __init__(self, server: ModelServer) -> None:
        self._server = server
        self.known: dict[str, Thing] = {}
        self.bad: dict[str, str] = {}
        self.listed = 0
        self._newest: dict[str, int] = {}
        self._gone: set[str] = set()

    def hear(self, change: Change[Thing]) -> None:
        """One change."""
        match change:
            case Appeared(thing):
                assert thing.metadata.name not in self.known
                self._take(thing)
            case Changed(before, after):
                assert self.known[after.metadata.name] is before
                assert before.metadata.uid == after.metadata.uid
                self._take(after)
            case Vanished(last):
                assert self.known.pop(last.metadata.name) is last
                self._gone.add(last.metadata.uid)
            case Listed():
                self.listed += 1
            case Unreadable():
                held = self.known.get(change.name)
                assert held is None or held.metadata.uid == change.uid
                assert "$.size" in change.problem
                self.bad[change.name] = change.uid
            case UnreadableGone():
                assert self.bad.pop(change.name) == change.uid

    def _take(self, thing: Thing) -> None:
        meta = thing.metadata
        version = int(meta.resource_version)
        assert meta.uid not in self._gone, "who is gone does not come back"
        assert version > self._newest.get(meta.uid, 0), "an older version replaced a newer one"
        assert any(
            (told.uid, told.revision, told.size) == (meta.uid, version, thing.size)
            for _, told in self._server.history
        ), "told what never was"
        self._newest[meta.uid] = version
        self.known[meta.name] = thing
        self.bad.pop(meta.name, None)


class MirrorMachine(RuleBasedStateMachine):
    """Changes and faults in any order."""

    @initialize(seed=st.integers(0, 1000), size=st.integers(1, 3))
    def start(self, seed: int, size: int) -> None:
        self.loop = VirtualTimeLoop()
        self.server = ModelServer(random.Random(seed))
        self.witness = Witness(self.server)
        client = Client(self.server, MachineClock(), random.Random(seed))
        pace = Pace(page_size=size, watch_s=60, silence_limit_s=SILENCE_S, restored_after_s=1e9)
        decoder = msgspec.json.Decoder(Thing)

        async def begin() -> None:
            self.mirror = Mirror(client, PODS, decoder, self.witness.hear, pace=pace)
            self.task = asyncio.create_task(self.mirror.run())

        self.loop.run_until_complete(begin())

    def wait(self, duration_s: float) -> None:
        async def pass_time() -> None:
            await asyncio.sleep(duration_s)
            self.health = self.mirror.health()

        self.loop.run_until_complete(pass_time())
        if self.task.done():
            self.task.result()

    @rule(name=NAMES, size=st.integers(0, 9))
    def put(self, name: str, size: int) -> None:
        self.server.put(name, size)

    @rule(name=NAMES)
    def put_unreadable(self, name: str) -> None:
        self.server.put(name, "huge")

    @rule(name=NAMES)
    def remove(self, name: str) -> None:
        self.server.remove(name)

    @rule(name=NAMES, waits=st.booleans())
    def replace(self, name: str, *, waits: bool) -> None:
        self.server.remove(name)
        if waits:
            self.wait(1.0)
        self.server.put(name, 1)

    @rule(
        removed=st.lists(NAMES, max_size=3),
        put=st.lists(NAMES, max_size=3),
        forgotten=st.booleans(),
        replays=st.booleans(),
    )
    def change_unseen(self, removed: list[str], put: list[str], *, forgotten: bool, replays: bool) -> None:
        self.fall_silent()
        for name in removed:
            self.server.remove(name)
        for name in put:
            self.server.put(name, 2)
        self.server.revision += 1
        if forgotten:
            self.server.compact()
        self.server.replays = replays
        self.wait(2 * SILENCE_S)

    @rule(name=NAMES)
    def list_from_a_lagging_server(self, name: str) -> None:
        before = self.server.revision
        self.server.put(name, 3)
        self.wait(1.0)
        self.fall_silent()
        self.server.visible = before
        self.server.compacted = before + 1
        self.wait(2 * SILENCE_S)
        self.server.visible = None

    @rule()
    def write_another_kind(self) -> None:
        self.server.revision += 1

    @rule()
    def compact(self) -> None:
        self.server.compact()

    @rule()
    def compact_between_pages(self) -> None:
        self.server.closes_after_page = True
        self.wait(5.0)
        self.server.closes_after_page = False

    @rule(after=st.integers(0, 600))
    def cut(self, after: int) -> None:
        self.server.bytes_until_cut = after

    @rule()
    def fall_silent(self) -> None:
        for stream in self.server.streams:
            stream.silent = True

    @rule(repeats=st.booleans(), replays=st.booleans())
    def repeat(self, *, repeats: bool, replays: bool) -> None:
        self.server.repeats, self.server.replays = repeats, replays

    @rule(by=st.integers(1, 6))
    def lag(self, by: int) -> None:
        self.server.visible = max(self.server.compacted, self.server.shown - by, 1)

    @rule()
    def catch_up(self) -> None:
        self.server.visible = None

    @rule(failures=st.lists(st.sampled_from([BROKEN, UNREACHABLE, refusal(500), refusal(429)]), max_size=5))
    def fail(self, failures: list[Any]) -> None:
        self.server.refusals.extend(failures)

    @rule(duration_s=st.sampled_from([0.0, 0.02, 0.3, 3.0, 50.0]))
    def let_time_pass(self, duration_s: float) -> None:
        self.wait(duration_s)

    @rule()
    def settle(self) -> None:
        self.server.heal()
        self.wait(SETTLED_S)
        readable = {
            name: version.uid for name, version in self.server.objects.items() if version.size != "huge"
        }
        unreadable = {
            name: version.uid for name, version in self.server.objects.items() if version.size == "huge"
        }
        known = {name: thing.metadata.uid for name, thing in self.witness.known.items()}
        assert self.witness.bad == unreadable
        assert {name: uid for name, uid in known.items() if name not in unreadable} == readable
        assert all(known[name] == unreadable[name] for name in known.keys() & unreadable.keys())
        for name in readable:
            assert self.witness.known[name].size == self.server.objects[name].size
        assert self.witness.listed == 1
        health = self.health
        assert health.following
        assert health.heard_s_ago is not None
        assert health.heard_s_ago <= SILENCE_S

    @invariant()
    def what_was_told_is_what_is_held(self) -> None:
        if hasattr(self, "mirror"):
            assert {name: thing for (_, name), thing in self.mirror.objects.items()} == self.witness.known
            assert {name for _, name in self.mirror.unreadable} == set(self.witness.bad)

    def teardown(self) -> None:
        if not hasattr(self, "mirror"):
            return
        try:
            self.settle()
        finally:
            self.task.cancel()
            self.loop.run_until_complete(asyncio.wait({self.task}))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()


MirrorMachine.TestCase.settings = settings(max_examples=50, stateful_step_count=20, deadline=None)
test_mirror_keeps_its_promises = MirrorMachine.TestCase
