"""Our own format of sharing: any mix on one node, and nothing that a card cannot do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.devices.device_errors import SharingError
from gpufleet.devices.facts import Fleet
from gpufleet.devices.sharing.own import read_sharing
from gpufleet.devices.sharing.plan import Exclusive, Fractions, Mig, Mode, Mps, NodePlans, TimeSlice
from gpufleet.model.mig import MigInstance
from gpufleet.model.mig_boards import BOARDS
from tests.devices.fleets import fleet_of

MIXED = fleet_of("model: H100-80GB, count: 4", "model: A100-40GB, count: 4")
CUT = fleet_of("model: A100-40GB, mig: [{profile: 1g.5gb, start: 0}]", "model: A100-40GB")


def plans(*entries: str, fleet: Fleet = MIXED, pool: str = "training") -> NodePlans:
    """The plans of a pool with these entries."""
    text = (
        f"version: gpufleet.io/v1alpha1\npools: {{training: [{', '.join(f'{{{one}}}' for one in entries)}]}}"
    )
    return read_sharing(text, fleet, pool, "sharing.yaml")


def modes(*entries: str, fleet: Fleet = MIXED) -> list[Mode]:
    return [plan.mode for plan in plans(*entries, fleet=fleet).plans]


def test_every_gpu_of_a_node_may_be_shared_in_its_own_way() -> None:
    uuid = MIXED.gpus[2].uuid
    found = modes(
        "gpus: [0], exclusive: {}",
        "gpus: [1], timeSlice: {replicas: 4}",
        f"gpus: [{uuid}], mps: {{clients: 4, memory: 8Gi, threads: 20}}",
        "gpus: {model: A100-40GB}, mig: {profiles: {3g.20gb: 1, 1g.5gb: 1}}",
        "gpus: rest, fractions: {maxShares: 20}",
    )
    cut = Mig((MigInstance(0, "1g.5gb"), MigInstance(4, "3g.20gb")))
    assert found == [Exclusive(), TimeSlice(4), Mps(4, 8192, 20), Fractions(20), cut, cut, cut, cut]


def test_a_gpu_of_which_nobody_speaks_is_offered_as_it_is() -> None:
    assert modes("gpus: [1], timeSlice: {replicas: 2}", fleet=CUT) == [Mig(None), TimeSlice(2)]


def test_a_pool_that_is_not_named_has_the_default_pools_plans_or_is_offered_as_it_is() -> None:
    text = "version: gpufleet.io/v1alpha1\npools: {default: [{gpus: rest, timeSlice: {replicas: 2}}]}"
    assert {plan.mode for plan in read_sharing(text, MIXED, "other").plans} == {TimeSlice(2)}
    found = plans("gpus: rest, timeSlice: {replicas: 2}", pool="other")
    assert {plan.mode for plan in found.plans} == {Exclusive()}
    assert "neither other nor default" in found.notices[0].reason


def test_limits_of_clients_are_equal_parts_of_what_the_driver_leaves_where_nobody_sets_them() -> None:
    """The card has 80 GiB, of which the driver keeps 512 MiB."""
    assert modes("gpus: [0], mps: {clients: 10}")[0] == Mps(10, (80 * 1024 - 512) // 10, 10)


@pytest.mark.parametrize("clients", [2, 3, 7, 48])
def test_what_clients_get_without_a_limit_may_be_written_down_as_their_limit(clients: int) -> None:
    (without, *_) = modes(f"gpus: [0], mps: {{clients: {clients}}}")
    assert isinstance(without, Mps)
    assert modes(f"gpus: [0], mps: {{clients: {clients}, memory: {without.memory_mib}}}")[0] == without


def test_the_switches_of_replicas_are_those_of_the_device_plugin() -> None:
    found = plans(
        "gpus: [0], timeSlice: {replicas: 2, renameByDefault: true, failRequestsGreaterThanOne: true}",
        "gpus: [1], timeSlice: {replicas: 2}",
        "gpus: [2], mps: {clients: 2}",
    ).plans
    assert [(plan.renamed, plan.one_at_most) for plan in found[:3]] == [
        (True, True),
        (False, False),
        (False, True),
    ]


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("gpus: [0], timeSlice: {replicas: four}", "pools.training[1].timeSlice.replicas: .* found 'four'"),
        ("gpus: [0], mps: {clients: 2, threads: 0.5}", "pools.training[1].mps.threads: .* found 0.5"),
        (
            "gpus: [0], mig: {profiles: {1g.10gb: two}}",
            "pools.training[1].mig.profiles.1g.10gb: .* found 'two'",
        ),
    ],
)
def test_a_value_of_a_wrong_type_is_named_with_its_field(entry: str, told: str) -> None:
    with pytest.raises(SharingError, match=told.replace("[1]", r"\[1\]")):
        plans("gpus: [1], timeSlice: {replicas: 4}", entry)


def test_a_uuid_of_another_node_is_noticed_and_a_model_that_is_not_here_is_nothing() -> None:
    uuid = "GPU-ffffffff-0000-0000-0000-000000000000"
    found = plans(f"gpus: [{uuid}], exclusive: {{}}", "gpus: {model: B200}, exclusive: {}")
    assert [str(notice) for notice in found.notices] == [
        f"pools.training[0].gpus: {uuid} has no effect: this node has no such GPU"
    ]


def test_other_makers_gpus_are_shared_too() -> None:
    found = modes(
        "gpus: [0], timeSlice: {replicas: 2}",
        "gpus: rest, fractions: {}",
        fleet=fleet_of("model: MI300X, count: 2"),
    )
    assert found == [TimeSlice(2), Fractions(10)]


@given(st.data())
def test_counts_of_profiles_are_placed_where_some_layout_has_them(data: st.DataObject) -> None:
    board = next(board for name, board in BOARDS.items() if name == "H100-80GB")
    layouts = list(board.layouts())
    layout = data.draw(st.sampled_from(layouts))
    counts: dict[str, int] = {}
    for one in layout:
        counts[one.profile] = counts.get(one.profile, 0) + 1
    text = ", ".join(f"{name}: {count}" for name, count in counts.items())
    mode = modes(f"gpus: [0], mig: {{profiles: {{{text}}}}}")[0]
    assert isinstance(mode, Mig)
    assert mode.layout is not None
    assert sorted(one.profile for one in mode.layout) == sorted(one.profile for one in layout)
    board.taken(mode.layout)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("gpus: [0]", r"training\[0\]: not one mode, found 'none'; expected one of exclusive"),
        ("gpus: [0], exclusive: {}, mps: {clients: 2}", "found 'exclusive, mps'"),
        ("gpus: all, exclusive: {}", r"gpus: Invalid enum value"),
        ("gpus: [some], exclusive: {}", "neither an index nor a UUID"),
        ("gpus: [-1], exclusive: {}", "0 to 7"),
        ("gpus: {model: H1000}, exclusive: {}", "did you mean H100"),
        ("gpus: [0], timeSlice: {replicas: 1}", r"timeSlice.replicas: not a number of replicas, found 1"),
        ("gpus: [0], timeSlice: {replicas: 2.5}", "Expected `int`, got `float`"),
        ("gpus: [0], mps: {clients: 49}", "2 to 48 for NVIDIA H100"),
        ("gpus: [0], mps: {clients: 4, memory: 30Gi}", "mps.memory: more than the card has.*at most 20352"),
        ("gpus: [0], mps: {clients: 4, memory: 8g}", "not an amount of memory"),
        ("gpus: [0], mps: {clients: 4, threads: 101}", "1 to 100"),
        ("gpus: [0], fractions: {maxShares: 0}", "1 to 100"),
        ("gpus: [0], mig: {}", "either layout or profiles"),
        ("gpus: [0], mig: {profiles: {1g.10gb: 8}}", "do not fit on one card"),
        ("gpus: [0], mig: {profiles: {1g.10gb: -1}}", "0 or more"),
        ("gpus: [0], mig: {profiles: {1g.10gb: 1000000000}}", "do not fit"),
        ("gpus: [0], mig: {profiles: {1g.5gb: 1}}", "no MIG profile of this GPU.*1g.10gb"),
    ],
)
def test_what_cannot_be_is_refused_with_the_field(entry: str, problem: str) -> None:
    with pytest.raises(SharingError, match=problem):
        plans(entry)


@pytest.mark.parametrize(
    ("group", "entry", "problem"),
    [
        ("model: L4", "gpus: [0], mig: {layout: []}", "cannot be cut"),
        ("model: MI300X", "gpus: [0], mps: {clients: 2}", "MPS is NVIDIA's"),
        ("model: A100-40GB, mig: []", "gpus: [0], mps: {clients: 2}", "cut into instances"),
        ("model: A100-40GB, mig: []", "gpus: [0], fractions: {}", "cut into instances"),
        ("model: A100-40GB, count: 0", "gpus: [0], exclusive: {}", "this node has no GPU"),
    ],
)
def test_a_mode_that_this_card_has_not_is_refused(group: str, entry: str, problem: str) -> None:
    with pytest.raises(SharingError, match=problem):
        plans(entry, fleet=fleet_of(group))
