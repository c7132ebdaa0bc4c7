"""Whatever is edited, broken, held, ended and restarted, in any order: held GPUs keep their plan."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpufleet.devices.sharing.plan import Exclusive, Fractions, Mode, TimeSlice
from gpufleet.model.grant import GrantedDevice, GrantKind
from tests.agent.sharing_world import SharingWorld, in_sharing_world

MODES: tuple[Mode, ...] = (Exclusive(), TimeSlice(2), TimeSlice(4), Fractions(3))
BROKEN = ("", "version: v9", "version: v1\nsharing: [", "a: b: c")
GPUS = 2

EDITS = st.tuples(st.just("edit"), st.tuples(*[st.integers(0, len(MODES) - 1)] * GPUS))
BREAKS = st.tuples(st.just("break"), st.sampled_from(BROKEN))
HOLDS = st.tuples(st.just("hold"), st.integers(0, GPUS - 1))
OTHERS = st.sampled_from([("end", 0), ("end", 1), ("restart", 0), ("lose", 0)])
STORIES = st.lists(EDITS | BREAKS | HOLDS | OTHERS, max_size=12)


def entry(gpu: int, mode: Mode) -> str:
    """A GPU's entry in a configuration."""
    match mode:
        case TimeSlice(replicas):
            return f"{{gpus: [{gpu}], timeSlice: {{replicas: {replicas}}}}}"
        case Fractions(most):
            return f"{{gpus: [{gpu}], fractions: {{maxShares: {most}}}}}"
        case _:
            return f"{{gpus: [{gpu}], exclusive: {{}}}}"


class Book:
    """What a story did: the modes last declared, and which GPUs are held."""

    def __init__(self) -> None:
        self.declared: list[Mode] = [Exclusive(), Exclusive()]
        self.broken = False
        self.held: set[int] = set()

    def act(self, world: SharingWorld, what: str, which: object) -> None:
        """Do one thing."""
        match what, which:
            case "edit", (int(first), int(second)):
                self.declared, self.broken = [MODES[first], MODES[second]], False
                entries = [entry(gpu, mode) for gpu, mode in enumerate(self.declared)]
                world.writes(f"version: gpufleet.io/v1alpha1\npools: {{default: [{', '.join(entries)}]}}")
            case "break", str(text):
                self.broken = True
                world.writes(text)
            case "hold", int(gpu):
                self._hold(world, gpu)
            case "end", int(gpu):
                self.held.discard(gpu)
                world.ends(f"pod-{gpu}")
            case "restart", _:
                world.start()
            case _:
                # The state folder is lost, and the agent starts again.
                (world.folder / "sharing-plans.json").unlink(missing_ok=True)
                world.start()

    def _hold(self, world: SharingWorld, gpu: int) -> None:
        if gpu in self.held:
            return
        self.held.add(gpu)
        uuid = world.gpus[gpu].uuid
        match world.modes()[gpu]:
            case TimeSlice():
                world.holds(f"pod-{gpu}", f"{uuid}::1")
            case Fractions():
                world.grants(f"pod-{gpu}", GrantedDevice(uuid, GrantKind.SHARE, 300, 1000))
                world.holds(f"pod-{gpu}", f"slot-{gpu}", "gpufleet.io/gpu-share")
            case _:
                world.holds(f"pod-{gpu}", uuid)


def kind(mode: Mode) -> type[Mode]:
    """Which resource of the kubelet a GPU is counted under."""
    return type(mode)


@settings(max_examples=40, deadline=None)
@given(STORIES)
# Without the record a holder's unit tells the plan; it has to count when a plan comes that the unit fits too.
@example([("edit", (0, 1)), ("break", ""), ("hold", 1), ("lose", 0), ("edit", (0, 2))])
def test_a_held_gpu_keeps_its_plan_and_a_free_one_has_what_was_declared_last(
    acts: list[tuple[str, object]],
) -> None:
    async def story(world: SharingWorld) -> None:
        book = Book()
        book.act(world, "edit", (0, 0))
        world.start()
        await world.settle()
        for what, which in acts:
            before, held = world.modes(), set(book.held)
            book.act(world, what, which)
            await world.settle()
            after = world.modes()
            for gpu in held & book.held:
                # Without the record its number of replicas is known only as far as it is seen.
                same = after[gpu] == before[gpu] if what != "lose" else kind(after[gpu]) is kind(before[gpu])
                assert same, f"{what} changed GPU {gpu}, which is held, to {after[gpu]}"
            for gpu in {0, 1} - book.held:
                assert book.broken or after[gpu] == book.declared[gpu]
            assert bool(world.problems()) >= book.broken
        book.act(world, "end", 0)
        book.act(world, "end", 1)
        book.act(world, "edit", (1, 3))
        await world.settle()
        assert world.modes() == [TimeSlice(2), Fractions(3)]
        assert world.problems() == ""

    in_sharing_world(story, f"model: H100-80GB, count: {GPUS}")
