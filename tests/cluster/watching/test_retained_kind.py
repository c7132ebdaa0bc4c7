"""What is told of a kind whose definition may be taken away, against a plain model of what counts.

The model knows which objects there are, whether the server serves the kind, and since when it is served
again. It says at each moment of rest which objects count: those that are there; those that vanished with
their kind, until ``RETURNS_WITHIN_S`` after its return; and no others.
"""

from random import Random

import pytest

from gpufleet.cluster.watching.retained_kind import (
    POLL_AFTER_S,
    POLL_EVERY_S,
    RETURNS_WITHIN_S,
    RetainedKind,
)
from gpufleet.kube import resources
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.mirror_changes import Appeared, Change, Changed, Vanished
from gpufleet.kube.objects.metadata import Metadata, PartialObject
from gpufleet.simulation.virtual_loop import VirtualClock, VirtualLoop, run
from tests.at_work import at_work
from tests.engine.effort import seeds

REST_S = 3 * (POLL_AFTER_S + POLL_EVERY_S)
NAMES = ("a", "b", "c")


class Server:
    """Stands for the client: it says whether new objects of the kind are taken, if it can be reached."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.serves = True
        self.answers = True

    async def takes_new(self, _: resources.Kind) -> bool:
        """As Client."""
        if not self.answers:
            raise KubeError("connection refused")
        return self.serves


class View:
    """What a reader knows that is told of changes. Each change has to fit to what it knows."""

    def __init__(self) -> None:
        self.known: dict[str, PartialObject] = {}

    def hear(self, change: Change[PartialObject]) -> None:
        """Facts come, change and go."""
        match change:
            case Appeared(found):
                assert found.metadata.name not in self.known
                self.known[found.metadata.name] = found
            case Changed(before, after):
                assert self.known[before.metadata.name] == before
                self.known[after.metadata.name] = after
            case Vanished(last):
                assert self.known.pop(last.metadata.name) == last


class Story:
    """The server, the mirror's words about it, and the model."""

    def __init__(self, loop: VirtualLoop, seed: int = 0) -> None:
        self.chance = Random(seed)
        self.clock = VirtualClock(loop)
        self.server = Server(self.clock)
        self.view = View()
        self.retained = RetainedKind(self.server, resources.FLEET_QUEUES, self.view.hear)  # type: ignore[arg-type]
        self.there: dict[str, PartialObject] = {}
        self.counts: dict[str, PartialObject] = {}
        self.versions = 0
        self.back_at_s: float | None = None

    def make(self, name: str) -> None:
        """An object is made anew, or changed."""
        self.versions += 1
        before = self.there.get(name)
        uid = before.metadata.uid if before is not None else f"{name}-{self.versions}"
        made = PartialObject(Metadata(name=name, uid=uid, resource_version=str(self.versions)))
        self.there[name] = self.counts[name] = made
        self.retained.hear(Appeared(made) if before is None else Changed(before, made))

    def lose(self, name: str) -> None:
        """An object vanishes."""
        self.retained.hear(Vanished(self.there.pop(name)))

    async def rest(self, duration_s: float = REST_S) -> None:
        """Time goes by; where the kind is served, the model gives up what may be given up by then."""
        await self.clock.sleep(duration_s)
        kept = self.counts.keys() - self.there.keys()
        if not kept:
            self.back_at_s = None
        waits = self.back_at_s is not None and self.clock.monotonic_s() - self.back_at_s < RETURNS_WITHIN_S
        if self.server.serves and self.server.answers and not waits:
            self.counts = dict(self.there)
            self.back_at_s = None

    def check(self) -> None:
        """The reader knows what counts, and what is kept is the rest of it."""
        assert self.view.known == self.counts
        kept = self.counts.keys() - self.there.keys()
        assert {name for _, name in self.retained.kept} == kept
        there = {("", name): one for name, one in self.there.items()}
        assert {one.metadata.name: one for one in self.retained.all(there)} == self.counts
        assert self.retained.withdrawn == (
            bool(kept) and (not self.server.serves or self.back_at_s is not None)
        )

    async def withdraw(self) -> None:
        """The definition goes, and its objects vanish one by one."""
        self.server.serves = False
        for name in list(self.there):
            self.lose(name)
            await self.clock.sleep(self.chance.random())
        self.back_at_s = None

    def bring_back(self) -> None:
        """The definition is there again, without objects."""
        self.server.serves = True
        self.back_at_s = self.clock.monotonic_s()


@pytest.mark.parametrize("seed", seeds(100))
def test_what_counts_is_what_the_plain_model_says(seed: int) -> None:
    async def work(loop: VirtualLoop) -> None:
        story = Story(loop, seed)
        async with at_work(story.retained.run()):
            for _ in range(25):
                act = story.chance.choice(["make", "make", "lose", "withdraw", "return", "wait"])
                name = story.chance.choice(NAMES)
                if act == "make" and story.server.serves:
                    story.make(name)
                elif act == "lose" and name in story.there:
                    story.lose(name)
                elif act == "withdraw" and story.server.serves:
                    await story.withdraw()
                elif act == "return" and not story.server.serves:
                    story.bring_back()
                    # Whoever brings the definition back may make its objects anew at once.
                    for one in story.chance.sample(NAMES, story.chance.randint(0, 3)):
                        story.make(one)
                elif act == "wait":
                    await story.rest(RETURNS_WITHIN_S + REST_S)
                await story.rest()
                story.check()

    run(work)


def test_while_the_server_cannot_be_reached_what_vanished_counts() -> None:
    async def work(loop: VirtualLoop) -> None:
        story = Story(loop)
        async with at_work(story.retained.run()):
            story.make("a")
            story.server.answers = False
            story.lose("a")
            await story.rest(10 * REST_S)
            story.check()
            story.server.answers = True
            await story.rest()
            assert not story.view.known

    run(work)


def test_an_object_that_is_deleted_long_after_the_kind_came_back_counts_no_more() -> None:
    """All objects were made anew before it was noticed that the kind is served again."""

    async def work(loop: VirtualLoop) -> None:
        story = Story(loop)
        async with at_work(story.retained.run()):
            story.make("a")
            await story.withdraw()
            await story.rest()
            story.bring_back()
            story.make("a")
            await story.clock.sleep(10 * RETURNS_WITHIN_S)
            story.lose("a")
            await story.rest()
            assert not story.view.known

    run(work)
