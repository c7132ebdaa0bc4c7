"""The default policy's score: what a node is worth before less what it is worth after.

``worth_account`` does the same with plain Python numbers; scores that the engine has kept and brought up
to date must agree to the last bit.
"""

import random
from collections.abc import Iterable, Sequence

import msgspec
import pytest

from gpufleet.engine.arrays import layout
from gpufleet.engine.event import BindRefused, DeviceSet, Event, PodAdded, PodRemoved, ValuationLearned
from gpufleet.engine.event_log import rerun
from gpufleet.engine.instruction import AnyInstruction, Bind, Evict, Learn, Rejected
from gpufleet.engine.learn.study import VALUATION_GAP_ARRIVALS
from gpufleet.engine.place.choose.ranking import best_node_by_handle
from gpufleet.engine.place.score import worth_tables
from gpufleet.engine.policy import find_policy
from gpufleet.engine.scheduler import Engine
from gpufleet.engine.valuation import (
    CURVE_STEPS,
    FULL_SHARE,
    ONE_GPU,
    ONE_PRICE,
    SPAN_MOST,
    HostCurve,
    SlotKind,
    SlotLevel,
    Valuation,
)
from gpufleet.model.identifiers import GpuModelName, NodeName, PodUid
from gpufleet.model.shape import Shape
from gpufleet.replay.measured_engine import MeasuredEngine
from gpufleet.virtual_time.player import Player
from tests.engine.effort import seeds
from tests.engine.fleet_builder import GIB, Story, gang, members, node, pod, problems, refused, shape, share
from tests.engine.random_fleets import odd_node, odd_shape, plain_node, plain_shape
from tests.engine.worth_account import FLAT, PLAIN, Account, fitting_devices


def scores(engine: Engine, wanted: Shape) -> dict[int, int]:
    """The engine's own scores of a shape, by row of the nodes where it fits."""
    state = engine.state
    shape_row = state.shapes.hold(wanted)
    slot = state.shapes.slot(shape_row)
    best_node_by_handle(state.store.handle, state.shapes.rankings_handle, state.policy.handle, slot)
    kept = state.shapes.rankings.scores[slot].tolist()
    state.shapes.drop(shape_row)
    return {row: score for row, score in enumerate(kept) if score != layout.INFEASIBLE}


def check_scores(engine: Engine, valuation: Valuation, known: list[Shape]) -> None:
    """Every kept score against the account."""
    for wanted in known:
        for row, score in scores(engine, wanted).items():
            account = Account(engine, valuation, row)
            if wanted.gpu.whole or wanted.gpu.count <= 1:
                assert score == account.score(wanted, fitting_devices(engine, wanted, row))


def check_tallies(engine: Engine, valuation: Valuation) -> None:
    """The fleet's counts of slots and of free milli against a recount."""
    worth = engine.state.policy.tables.worth
    accounts = [Account(engine, valuation, row) for row in engine.state.fleet.row_by_name.values()]
    idle = {account: sum(gpu.idle_milli for gpu in account.gpus) for account in accounts}
    assert worth.state[worth_tables.WORTH_TOTAL_FREE_MILLI] == sum(idle.values())
    for name, code in engine.state.fleet.model_codes.items():
        of_model = sum(milli for account, milli in idle.items() if account.model == name)
        assert code >= len(worth.model_free) or worth.model_free[code] == of_model
    for kind, slots in enumerate(valuation.slots):
        for level in range(len(slots.levels)):
            left = sum(
                sum(gpu.entirely_free for gpu in account.gpus) // slots.gpus
                for account in accounts
                if account.levels_met(slots, account.cpu_milli, account.memory_bytes) > level
            )
            assert worth.slots_left[kind, level] == left


def random_curve(chance: random.Random) -> HostCurve:
    """Any rising curve."""
    shares = sorted(chance.randint(0, FULL_SHARE) for _ in range(CURVE_STEPS + 1))
    return HostCurve(chance.choice((1, 500, 3000, 20_000, 10**6, SPAN_MOST)), tuple(shares))


def random_valuation(chance: random.Random) -> Valuation:
    """Any valuation that the engine takes."""
    value = sorted(chance.choice((chance.randint(0, ONE_GPU), 0, ONE_GPU // 2)) for _ in range(1001))
    kinds = []
    for gpus in chance.sample((1, 2, 3, 4, 8), chance.randint(0, 4)):
        count = chance.randint(1, 8)
        columns = [
            sorted(chance.choice(amounts) for _ in range(count))
            for amounts in ((0, 8000, 32_000, 10**6), (0, 1000, 60_000, 250_000), range(gpus * ONE_GPU))
        ]
        levels = (SlotLevel(cpu, memory, bonus, -1) for cpu, memory, bonus in zip(*columns, strict=True))
        kinds.append(SlotKind(gpus, tuple(levels)))
    prices = {GpuModelName(model): chance.randint(0, 3000) for model in ("A100", "T4", "unheard-of")}
    return msgspec.structs.replace(
        PLAIN,
        value_by_milli=(0, *value[1:]),
        cpu=random_curve(chance),
        memory=random_curve(chance),
        price_by_model=prices if chance.random() < 0.7 else {},
        slots=tuple(kinds),
    )


def random_steps(story: Story, chance: random.Random, number: int) -> None:
    """Something happens."""
    fleet = story.engine.state.fleet
    running = sorted(story.engine.state.pods.row_by_uid)
    names = sorted(fleet.row_by_name)
    kind = chance.randrange(10)
    if kind < 5:
        story.arrive(pod(f"pod-{number}", chance.choice((plain_shape, odd_shape))(chance)))
    elif kind == 5 and running:
        story.depart(*chance.sample(running, min(3, len(running))))
    elif kind == 6 and running:
        story.happen(BindRefused(chance.choice(running)))
    elif kind == 7:
        name = chance.choice([*names, "another"])
        if name not in fleet.row_by_name or chance.random() < 0.5:
            story.nodes(chance.choice((plain_node, odd_node))(chance, name))
        else:
            story.lose(name)
    elif kind == 8 and names:
        known = fleet.node_at(fleet.row_by_name[NodeName(chance.choice(names))])
        if known.devices:
            device = chance.choice(known.devices)
            sick = msgspec.structs.replace(device, healthy=not device.healthy)
            story.happen(DeviceSet(known.name, sick))
    else:  # more members than fit, often: the trial is undone
        name = f"gang-{number}"
        story.gangs(gang(name, 6))
        story.arrive(*members(name, 6, plain_shape(chance)))


@pytest.mark.parametrize("seed", seeds(40))
def test_kept_scores_and_tallies_are_those_of_the_account_whatever_happens(seed: int) -> None:
    chance = random.Random(seed)
    story = Story("gpufleet", seed=seed)
    story.nodes(*(chance.choice((plain_node, odd_node))(chance, f"node-{n}") for n in range(6)))
    valuation = PLAIN
    for number in range(40):
        random_steps(story, chance, number)
        if number % 8 == 7:
            valuation = random_valuation(chance)
            story.happen(ValuationLearned(valuation))
        known = [one.shape for one in story.engine.state.pods.pods if one is not None][-6:]
        check_scores(story.engine, valuation, known)
        if known:
            check_tallies(story.engine, valuation)
    assert not problems(story.said)


@pytest.mark.parametrize("seed", seeds(20))
def test_a_pod_goes_where_the_account_loses_least_and_is_refused_only_where_it_fits_nowhere(
    seed: int,
) -> None:
    chance = random.Random(seed)
    story = Story("gpufleet", seed=seed)
    story.nodes(*(plain_node(chance, f"node-{n}") for n in range(6)))
    valuation = random_valuation(chance)
    story.happen(ValuationLearned(valuation))
    for number in range(40):
        wanted = plain_shape(chance)
        before = {
            row: Account(story.engine, valuation, row).score(
                wanted, fitting_devices(story.engine, wanted, row)
            )
            for row in scores(story.engine, wanted)
        }
        expected = min(before, key=lambda row: (-before[row], row), default=None)
        device = None
        if expected is not None and wanted.gpu.count and not wanted.gpu.whole:
            fitting = fitting_devices(story.engine, wanted, expected)
            device = Account(story.engine, valuation, expected).cheapest(wanted.gpu.gpu_milli, fitting).row
        said = story.arrive(pod(f"pod-{number}", wanted))
        if expected is None:
            assert refused(said) == [f"pod-{number}"]
            continue
        name, devices = story.binds[f"pod-{number}"]
        assert story.engine.state.fleet.row_by_name[NodeName(name)] == expected
        if device is not None:
            assert devices == (story.engine.state.fleet.device_ids[device],)


@pytest.mark.parametrize("span", [1, 10**6, SPAN_MOST])
def test_the_largest_node_with_the_steepest_and_the_longest_curve(span: int) -> None:
    story = Story("gpufleet")
    rising = tuple(step * FULL_SHARE // CURVE_STEPS for step in range(CURVE_STEPS + 1))
    slots = tuple(SlotKind(gpus, (SlotLevel(0, 0, gpus * ONE_GPU, -1),)) for gpus in (1, 2, 4, 8))
    valuation = msgspec.structs.replace(
        PLAIN, cpu=HostCurve(span, rising), memory=HostCurve(span, rising), slots=slots
    )
    wanted = [shape(8, memory_bytes=1 << 40, cpu_milli=10**6), share(300), shape(cpu_milli=10**8)]
    story.nodes(
        node("huge", 256, cpu_milli=10**9, memory_bytes=1 << 50, pods=1000),
        node("lean", 256, cpu_milli=10**6, memory_bytes=1 << 41, pods=1000),
        node("starved", 256, cpu_milli=1000, memory_bytes=GIB, pods=1000),
    )
    story.happen(ValuationLearned(valuation))
    for number, one in enumerate(wanted):
        story.arrive(pod(f"pod-{number}", one))
        check_scores(story.engine, valuation, wanted[: number + 1])
        check_tallies(story.engine, valuation)


def test_nodes_and_models_that_come_after_a_valuation_are_valued_by_it() -> None:
    story = Story("gpufleet")
    story.nodes(node("first", 4))
    valuation = msgspec.structs.replace(
        PLAIN,
        price_by_model={GpuModelName("A100"): 3 * ONE_PRICE},
        slots=(SlotKind(2, (SlotLevel(0, 0, 1000, -1),)),),
    )
    story.happen(ValuationLearned(valuation))
    known = [share(300), shape(2)]
    for number, one in enumerate(known):
        story.arrive(pod(f"pod-{number}", one))
    for number in range(150):  # more than the 64 rows and 8 models that there is room for at first
        story.nodes(node(f"later-{number}", number % 5, model=f"model-{number % 30}"))
        if number % 10 == 0:
            check_scores(story.engine, valuation, known)
    check_scores(story.engine, valuation, known)
    check_tallies(story.engine, valuation)


BAD_VALUATIONS = {
    "a value too few": {"value_by_milli": PLAIN.value_by_milli[:-1]},
    "a value too many": {"value_by_milli": (*PLAIN.value_by_milli, ONE_GPU)},
    "no value": {"value_by_milli": ()},
    "more than a GPU": {"value_by_milli": (*PLAIN.value_by_milli[:-1], ONE_GPU + 1)},
    "less than nothing": {"value_by_milli": (-1, *PLAIN.value_by_milli[1:])},
    "beyond 64 bits": {"value_by_milli": (*PLAIN.value_by_milli[:-1], 1 << 70)},
    "a share too few": {"cpu": HostCurve(1, FLAT.shares[:-1])},
    "more than all": {"memory": HostCurve(1, (*FLAT.shares[:-1], FULL_SHARE + 1))},
    "no extent": {"memory": HostCurve(0, FLAT.shares)},
    "too long a span": {"cpu": HostCurve(SPAN_MOST + 1, FLAT.shares)},
    "a negative price": {"price_by_model": {GpuModelName("A100"): -1}},
    "too high a price": {"price_by_model": {GpuModelName("A100"): 1 << 63}},
    "too many kinds": {"slots": (SlotKind(2, ()),) * 5},
    "too many levels": {"slots": (SlotKind(2, (SlotLevel(0, 0, 0, -1),) * 9),)},
    "a slot of nothing": {"slots": (SlotKind(0, ()),)},
    "a need beyond 64 bits": {"slots": (SlotKind(2, (SlotLevel(1 << 64, 0, 0, -1),)),)},
    "too high a bonus": {"slots": (SlotKind(2, (SlotLevel(0, 0, 1 << 62, -1),)),)},
    "a mark beyond 64 bits": {"free_high_milli": 1 << 64},
    "a low mark of a model beyond 64 bits": {"model_low_milli": {GpuModelName("A100"): 1 << 64}},
}


@pytest.mark.parametrize("bad", BAD_VALUATIONS.values(), ids=BAD_VALUATIONS)
def test_a_valuation_of_wrong_size_or_amount_is_refused_and_harms_nothing(bad: dict[str, object]) -> None:
    story = Story("gpufleet")
    story.nodes(node("only", 4))
    story.arrive(pod("small", share(300)))
    known = scores(story.engine, share(300))
    said = story.happen(ValuationLearned(msgspec.structs.replace(PLAIN, **bad)))
    assert [one.subject for one in said if isinstance(one, Rejected)] == ["ValuationLearned"]
    assert scores(story.engine, share(300)) == known
    check_scores(story.engine, PLAIN, [share(300)])
    assert story.binds.keys() == {"small"}
    story.arrive(pod("next", share(300)))
    assert story.binds["next"] == ("only", ("only/0",))


class Lines:
    """A log in memory."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def write(self, line: bytes, /) -> None:
        """Keep one line."""
        self.lines.append(line)


class Unconfirmed:
    """Keeps what the engine says: pods stay where they were bound, and no bind is confirmed."""

    def __init__(self) -> None:
        self.said: list[AnyInstruction] = []

    def started(self, bind: Bind) -> Iterable[Event]:
        """Nothing follows."""
        self.said.append(bind)
        return ()

    def evicted(self, evict: Evict) -> Iterable[Event]:
        """Nothing follows."""
        self.said.append(evict)
        return ()

    def other_instruction(self, said: AnyInstruction) -> None:
        """Nothing follows."""
        self.said.append(said)

    def due(self, uids: Sequence[PodUid]) -> Iterable[Event]:
        """Nothing is ever due."""
        raise AssertionError(uids)


def churned(seed: int, lines: Lines) -> MeasuredEngine:
    """An engine that has seen arrivals, departures and valuations."""
    chance = random.Random(seed)
    measured = MeasuredEngine(find_policy("gpufleet"), seed, lines)
    measured.set_up([plain_node(chance, f"node-{number}") for number in range(12)], ())
    player = Player(measured, Unconfirmed())
    leaving: list[PodUid] = []
    for number in range(1, 400):
        uid = PodUid(f"pod-{number}")
        leaving.append(uid)
        gone = [PodRemoved(leaving.pop(0)) for _ in range(2)] if len(leaving) > 60 else []
        player.wait_until(number)
        player.happen((*gone, PodAdded(pod(uid, plain_shape(chance)))))
    return measured


@pytest.mark.parametrize("seed", seeds(3))
def test_a_log_with_valuations_runs_again_to_the_same_bytes(seed: int) -> None:
    lines = Lines()
    churned(seed, lines)
    assert sum(b'"lesson-learned"' in line for line in lines.lines) >= 5
    for number, recorded, now in rerun(lines.lines):
        assert recorded == now, f"line {number}"


@pytest.mark.parametrize("seed", seeds(5))
def test_scores_that_valuations_left_alone_are_those_made_anew(seed: int) -> None:
    engine = churned(seed, Lines()).engine
    known = sorted({one.shape for one in engine.state.pods.pods if one is not None}, key=repr)
    kept = [scores(engine, wanted) for wanted in known]
    engine.state.shapes.rank_anew()
    assert [scores(engine, wanted) for wanted in known] == kept


@pytest.mark.parametrize("bonus", [1, 1000, ONE_GPU])
def test_a_bonus_too_small_to_matter_is_not_taken_over_by_halves(bonus: int) -> None:
    story = Story("gpufleet")
    story.nodes(node("a", 8), node("b", 4), node("c", 2))
    known = [share(300), shape(1), shape()]
    story.arrive(*(pod(f"pod-{number}", wanted) for number, wanted in enumerate(known)))
    for amount in (0, bonus, 0, bonus // 2):
        slots = (SlotKind(2, (SlotLevel(0, 0, amount, -1),)),)
        story.happen(ValuationLearned(msgspec.structs.replace(PLAIN, slots=slots)))
        kept = [scores(story.engine, wanted) for wanted in known]
        story.engine.state.shapes.rank_anew()
        assert [scores(story.engine, wanted) for wanted in known] == kept


def is_due(said: list[AnyInstruction]) -> bool:
    """Whether the engine asks for a valuation."""
    return any(isinstance(one, Learn) for one in said)


def filled() -> tuple[Story, list[str]]:
    """A fleet of 48 GPUs in which 40 single GPUs run, a valuation taken at the last arrival; and who runs."""
    story = Story("gpufleet")
    story.nodes(*(node(f"node-{number}", 8) for number in range(6)))
    uids = [f"pod-{number}" for number in range(40)]
    for uid in uids:
        story.arrive(pod(uid, shape(1)))
    story.happen(story.engine.study())
    return story, uids


def test_a_fleet_that_empties_calls_for_a_valuation_once_the_gap_is_over() -> None:
    story, uids = filled()
    assert not is_due(story.depart(*uids))
    for number in range(1, VALUATION_GAP_ARRIVALS):
        assert not is_due(story.arrive(pod(f"late-{number}", share(10))))
    assert is_due(story.arrive(pod("last", share(10))))
    assert not is_due(story.happen(story.engine.study()))


def test_a_valuation_is_called_for_when_the_next_is_due_by_arrivals() -> None:
    story, _ = filled()
    # 40 arrivals call for the next valuation at 60; nothing else changes, for nothing here fits
    due = [is_due(story.arrive(pod(f"late-{number}", shape(9)))) for number in range(41, 61)]
    assert due == [False] * 19 + [True]


def test_a_policy_that_does_not_learn_never_asks() -> None:
    story = Story("best-fit")
    story.nodes(node("only", 8))
    for number in range(40):
        assert not is_due(story.arrive(pod(f"pod-{number}", share(10))))


def test_work_without_gpus_teaches_nothing_and_is_asked_about_rarely() -> None:
    story = Story("gpufleet")
    story.nodes(node("only", 8))
    asked = []
    for number in range(1, 100):
        if is_due(story.arrive(pod(f"pod-{number}", shape(cpu_milli=1)))):
            asked.append(number)
            valuation = story.engine.study()
            assert valuation.valuation is None
            assert not is_due(story.happen(valuation))
    assert asked == [16, 24, 36, 54, 81]
