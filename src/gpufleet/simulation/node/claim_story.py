"""A story of claims on a node, told again and again: each time the agent dies at another of its steps.

Two cards go to claims and two to the device plugin. Claims are prepared, asked for again, taken back and
prepared for others; a scheduler that errs gives a card of a claim to another claim, and one of a pod to a
claim; containers start again, the kubelet restarts, and an agent starts whose setting leaves no cards to
claims. Steps are those of ``every_death``: writes to the disk and to the API server, and the kubelet's
calls, each before and after.

At each start of a container its cards must be its own: no card is in two claims, nor in a claim and a pod of
the device plugin. A claim that is asked for again is answered as before, whichever process answers. A claim
whose card is free is prepared within two minutes. At rest each prepared claim has its file, and no other
claim has one.
"""

import asyncio
import itertools
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from gpufleet.agent.dra.claim_files import PREFIX, file_name
from gpufleet.agent.dra.claim_preparer import ClaimName
from gpufleet.agent.dra.device_pools import pool_name
from gpufleet.agent.dra.nvidia_devices import DRIVER
from gpufleet.agent.state.state_errors import RefusedError
from gpufleet.kube.transport import Request
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.simulation import virtual_loop
from gpufleet.simulation.invariants import Broken
from gpufleet.simulation.node.every_death import (
    CALM_S,
    PAUSE_S,
    POLL_EVERY_S,
    STARTS_AGAIN_AFTER_S,
    TRIES_MAX,
    StoryOutcome,
)
from gpufleet.simulation.node.kubelet import PluginGoneError
from gpufleet.simulation.node.world import ADMINISTRATOR, NODE, RUNS_ON_S, NodeWorld
from gpufleet.simulation.virtual_loop import VirtualLoop

FOR_CLAIMS = "2,3"
"""The indexes of the cards that claims get; the others are the device plugin's."""

NO_CARDS = "none"
MERGE = "application/merge-patch+json"
"""What is written of a status replaces what was there."""


class ClaimStoryRun:
    """The story, told once. ``dies_at`` is the number of the step at which the agent dies, None for never."""

    def __init__(self, loop: VirtualLoop, folder: Path, *, dies_at: int | None) -> None:
        self.world = NodeWorld(
            loop, "claims", folder, shares=False, on_death=lambda: STARTS_AGAIN_AFTER_S, claims=FOR_CLAIMS
        )
        self.claims = self.world.claims
        self.world.crashes.left = dies_at
        self.world.kubelet.on_start = self._pod_starts
        self._numbers = itertools.count()

    async def run(self) -> StoryOutcome:
        """From the first start of the agent to the last judgement."""
        world = self.world
        acting = world.loop.create_task(world.kubelet.run())
        world.start_agent()
        await self._come_and_go()
        steps = tuple(world.crashes.passed)
        # What comes now is the judge's own doing: the agent lives, so that it can be judged.
        world.crashes.left = None
        await asyncio.sleep(CALM_S)
        self._judge_rest()
        world.over = True
        acting.cancel()
        return StoryOutcome(
            False,
            tuple(world.crashed),
            steps,
            tuple(world.broken),
            len(self.claims.using),
            tuple(world.story),
        )

    async def _come_and_go(self) -> None:
        lasting, passing = self._claim("gpu-2"), self._claim("gpu-3")
        await self._begin(lasting)
        await self._pod_runs()
        await self._begin(passing)
        # The scheduler errs: the card is that of another claim.
        await self._is_refused(self._claim("gpu-2"))
        self.world.note("the kubelet restarts")
        self.world.kubelet.stop()
        await asyncio.sleep(1.0)
        self.world.kubelet.restart(forgets=False)
        await self._begin(lasting)
        await self._end(passing)
        await self._begin(self._claim("gpu-3"))
        await self._cards_go_to_the_plugin(lasting)

    async def _cards_go_to_the_plugin(self, lasting: ClaimName) -> None:
        """The next agent leaves no card to claims: those that claims have stay with them until they end."""
        await self._next_agent(NO_CARDS)
        await self._begin(lasting)
        await self._pod_runs()
        await self._end(lasting)
        # Once its claim has ended, the card is the device plugin's.
        await self._pod_runs()
        await self._is_refused(self._claim("gpu-2"))
        # And it stays that, whatever a later setting says, while the pod has it.
        await self._next_agent(FOR_CLAIMS)
        await self._is_refused(self._claim("gpu-2"))

    async def _next_agent(self, cards: str) -> None:
        """The agent ends, and another one starts that leaves these cards to claims."""
        world = self.world
        world.note(f"the agent starts again and leaves {cards} to claims")
        world.cards_for_claims = cards
        if world.process.alive:
            world.process.kill()
            world.start_agent()
        await asyncio.sleep(PAUSE_S)

    def _claim(self, device: str) -> ClaimName:
        """A claim that a scheduler has given a card."""
        name = f"claim-{next(self._numbers)}"
        result = {"request": "gpu", "driver": DRIVER, "pool": pool_name(NODE, DRIVER), "device": device}
        made = self.world.server.add(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": name, "namespace": "team"},
                "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}},
            }
        )
        # The status is written by itself, as of every kind that has one.
        body = msgspec.json.encode({"status": {"allocation": {"devices": {"results": [result]}}}})
        target = f"/apis/resource.k8s.io/v1/namespaces/team/resourceclaims/{name}/status"
        self.world.server.answer(Request("PATCH", target, body, MERGE), ADMINISTRATOR)
        self.world.note(f"{name} is given {device}")
        return ClaimName("team", made["metadata"]["uid"], name)

    async def _begin(self, claim: ClaimName) -> None:
        """A container starts with a claim, as soon as it can."""
        for _ in range(TRIES_MAX):
            try:
                await self.claims.prepare(DRIVER, claim)
                cards = self.claims.start(DRIVER, claim)
            except (RefusedError, PluginGoneError) as problem:
                words = str(problem)
                await asyncio.sleep(POLL_EVERY_S)
                continue
            self.world.note(f"a container starts with {claim.name}: {sorted(cards)}")
            self._judge_start(claim.name, len(cards))
            await asyncio.sleep(PAUSE_S)
            return
        at_s = self.world.loop.time()
        self._break("I9", at_s, f"{claim.name} is not prepared in {TRIES_MAX * POLL_EVERY_S:g} s: {words}")

    async def _is_refused(self, claim: ClaimName) -> None:
        """A claim whose card is another's is refused; where it is not, its container starts."""
        for _ in range(TRIES_MAX):
            try:
                await self.claims.prepare(DRIVER, claim)
            except RefusedError as refusal:
                self.world.note(f"{claim.name} is refused: {refusal}")
                self.claims.answers.pop(claim.uid, None)
                return
            except PluginGoneError:
                # With no cards for claims and no claim prepared, the driver has gone: that refuses it too.
                if self.world.cards_for_claims == NO_CARDS and not self.claims.answers:
                    return
                await asyncio.sleep(POLL_EVERY_S)
                continue
            self.claims.start(DRIVER, claim)
            self._judge_start(claim.name, 1)
            return

    async def _end(self, claim: ClaimName) -> None:
        """The containers of a claim end, and it is taken back as soon as that can be."""
        for _ in range(TRIES_MAX):
            try:
                await self.claims.take_back(DRIVER, claim)
            except (RefusedError, PluginGoneError):
                await asyncio.sleep(POLL_EVERY_S)
                continue
            self.world.note(f"{claim.name} is taken back")
            return
        self._break("I9", self.world.loop.time(), f"{claim.name} is not taken back")

    async def _pod_runs(self) -> None:
        """A pod of the device plugin runs; one that the kubelet turns away is made anew."""
        uid = ""
        for _ in range(TRIES_MAX):
            await asyncio.sleep(POLL_EVERY_S)
            if uid in self.world.kubelet.using:
                return
            free = self.world.free_devices(WHOLE_GPU_MILLI)
            if free and uid not in self.world.kubelet.pods:
                uid = self.world.bind_granted(free[:1], WHOLE_GPU_MILLI, RUNS_ON_S)["metadata"]["uid"]
        self._break("I9", self.world.loop.time(), "no pod of the device plugin runs")

    def _pod_starts(self, uid: str) -> None:
        self.world.note(f"{uid} starts with {self.world.kubelet.using[uid]}")
        self._judge_start(uid, 1)

    def _judge_start(self, name: str, cards: int) -> None:
        """No card is used twice, and what starts has its cards."""
        used = Counter(device for its in self.world.kubelet.using.values() for device, _ in its)
        used.update(card for its in self.claims.using.values() for card in its)
        at_s = self.world.loop.time()
        for device, times in used.items():
            if times > 1:
                self._break("I1", at_s, f"{device} is used {times} times when {name} starts")
        if cards != 1:
            self._break("I14", at_s, f"{name} was given one card and has {cards}")

    def _judge_rest(self) -> None:
        """Answers were equal, and files are there for the claims that are prepared, and for no others."""
        at_s = self.world.loop.time()
        for words in self.claims.changed:
            self._break("I12", at_s, words)
        wanted = {f"{file_name(uid, DRIVER)}.json" for uid in self.claims.answers}
        found = {path.name for path in self.claims.cdi_folder.glob(f"{PREFIX}*")}
        if wanted != found:
            self._break("I4", at_s, f"prepared are {sorted(wanted)}, and there are {sorted(found)}")
        agent = self.world.agent
        failed = [one for one in agent.problems() if " it failed: " in one] if agent else []
        for one in failed:
            self._break("alive", at_s, one)

    def _break(self, promise: str, at_s: float, words: str) -> None:
        self.world.broken.append(Broken(promise, at_s, 0, words))


def run_claim_story(dies_at: int | None = None) -> StoryOutcome:
    """Tell the story once. Raises SimulationError where the run itself fails."""
    with tempfile.TemporaryDirectory(prefix="gpufleet-node-") as folder:

        async def work(loop: VirtualLoop) -> StoryOutcome:
            return await ClaimStoryRun(loop, Path(folder), dies_at=dies_at).run()

        return virtual_loop.run(work, 0, threads=True)


def run_every_claim_death(every: int = 1, begin: int = 0) -> Iterator[tuple[str, StoryOutcome]]:
    """The story with a death at each of its steps, or at one in so many of them; the step, and what came."""
    undisturbed = run_claim_story()
    for number in range(begin, len(undisturbed.steps), every):
        yield undisturbed.steps[number], run_claim_story(number)
