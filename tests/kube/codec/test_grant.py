"""A grant survives its way through the annotation, and nothing doubtful is read."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.kube.codec.containers import GpuContainer
from gpufleet.kube.codec.durations import MAXIMUM_US
from gpufleet.kube.codec.grant import granted_devices, make_grant, read_grant, write_grant
from gpufleet.kube.codec.node import ANONYMOUS
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.model.backfill_promise import BackfillPromise
from gpufleet.model.bound_terms import NEVER_STALE, BoundGang, BoundTerms
from gpufleet.model.device import Device
from gpufleet.model.gang import Gang, Slices
from gpufleet.model.grant import ContainerGrant, Grant, GrantedDevice, GrantKind
from gpufleet.model.identifiers import DeviceId, GangName, GpuModelName, QueueName, TopologyLevelName
from gpufleet.model.shape import GpuRequest

FENCE = r'^[{]"v":[0-9]{1,9},"epoch":[0-9]{1,10}[,}]'
"""As the policy ``gpufleet-epoch-fence`` looks for the epoch."""

IDS = st.integers(0, 10**6).map(lambda number: DeviceId(f"GPU-{number:08x}"))
MEMORY = st.none() | st.integers(0, 2**31 - 1)
WHOLE = st.builds(GrantedDevice, IDS, memory_mib=MEMORY)
SHARE = st.builds(GrantedDevice, IDS, st.just(GrantKind.SHARE), st.integers(0, 1000), MEMORY)
MIG = st.builds(
    GrantedDevice,
    IDS,
    st.just(GrantKind.MIG),
    st.integers(0, 1000),
    MEMORY,
    st.just("1g.10gb"),
    st.integers(0, 7),
)
DEVICES = st.lists(
    WHOLE | SHARE | MIG, max_size=8, unique_by=lambda device: (device.id, device.mig_start)
).map(tuple)
NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
PARTS = st.lists(st.builds(ContainerGrant, NAMES, DEVICES), max_size=4, unique_by=lambda part: part.container)
MOMENTS = st.integers(0, 2**60)
LENGTHS = st.integers(1, MAXIMUM_US)
QUEUES = NAMES.map(QueueName)
PROMISES = st.lists(st.builds(BackfillPromise, NAMES, st.none() | LENGTHS), max_size=3).map(tuple)
LEVELS = st.none() | NAMES.map(TopologyLevelName)
ANY_ROLE = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@st.composite
def any_terms(draw: st.DrawFn) -> BoundTerms:
    queue, priority = draw(QUEUES), draw(st.integers(-(2**31), 2**31 - 1))
    gangs = st.builds(
        Gang,
        NAMES.map(GangName),
        st.integers(1, 1000),
        st.just(queue),
        st.just(priority),
        LEVELS,
        MOMENTS,
        st.lists(st.tuples(ANY_ROLE, st.integers(1, 9)), max_size=3).map(tuple),
        LEVELS,
        st.lists(st.builds(Slices, NAMES.map(TopologyLevelName), st.integers(1, 9)), max_size=2).map(tuple),
        st.booleans(),
        st.booleans(),
        st.lists(NAMES.map(GpuModelName), max_size=2).map(tuple),
    )
    patience = st.none() | st.just(NEVER_STALE) | LENGTHS
    return draw(
        st.builds(
            BoundTerms,
            st.just(queue),
            st.just(priority),
            MOMENTS,
            st.booleans(),
            st.booleans(),
            st.none() | LENGTHS,
            st.none() | LENGTHS,
            st.booleans(),
            st.none() | MOMENTS,
            PROMISES,
            st.none() | st.builds(BoundGang, gangs, ANY_ROLE, patience, st.booleans()),
        )
    )


GRANTS = st.builds(Grant, st.integers(0, 2**31 - 1), PARTS.map(tuple), st.none() | any_terms())

PLAIN = {"v": 1, "epoch": 7, "containers": {"train": [{"id": "GPU-1"}]}}
TERMS = {"queue": "team", "atUs": 5, "preemptible": True}


def bound_with(**terms: object) -> str:
    return json.dumps({**PLAIN, "v": 2, "terms": {**TERMS, **terms}})


def bound_in_gang(**gang: object) -> str:
    return bound_with(gang={"name": "gang/default/train", "minMembers": 2, **gang})


@given(GRANTS)
def test_what_is_written_is_read(grant: Grant) -> None:
    text = write_grant(grant)
    assert read_grant(text) == grant
    assert json.loads(text)["v"] == 2
    assert re.match(FENCE, text), "the fence does not find the epoch"


@given(GRANTS)
def test_a_grant_in_other_spaces_is_read_by_all_checks_to_the_same_grant(grant: Grant) -> None:
    """A text that is written as we write it is read on a shorter way."""
    text = write_grant(grant)
    assert read_grant(json.dumps(json.loads(text), indent=1)) == read_grant(text)


def test_terms_stand_between_the_epoch_and_the_devices() -> None:
    terms = BoundTerms(QueueName("team"), 7, 5, run_time_us=60_000_000, promises=(BackfillPromise("holder"),))
    written = {
        "v": 2,
        "epoch": 7,
        "terms": {
            "queue": "team",
            "atUs": 5,
            "preemptible": True,
            "priority": 7,
            "runTimeUs": 60_000_000,
            "seats": [{"holder": "holder"}],
        },
    }
    text = write_grant(Grant(7, terms=terms))
    assert json.loads(text) == written
    assert list(json.loads(text)) == ["v", "epoch", "terms"]


def test_a_grant_of_the_version_before_has_no_terms() -> None:
    assert read_grant(json.dumps(PLAIN)).terms is None
    assert read_grant(json.dumps({**PLAIN, "v": 2})).terms is None
    assert read_grant(bound_with()).terms == BoundTerms(QueueName("team"), 0, 5)


def test_the_form_is_the_documented_one() -> None:
    grant = Grant(7, (ContainerGrant("train", (GrantedDevice(DeviceId("GPU-1"), memory_mib=80384),)),))
    written = {"v": 2, "epoch": 7, "containers": {"train": [{"id": "GPU-1", "memoryMiB": 80384}]}}
    assert json.loads(write_grant(grant)) == written
    assert read_grant(json.dumps(written)) == grant


DEEP = "[" * 10_000 + "]" * 10_000
BAD_GRANTS = {
    "empty": "",
    "not JSON": "abc",
    "a list": "[]",
    "null": "null",
    "no version": json.dumps({"epoch": 7}),
    "an unknown version": json.dumps({**PLAIN, "v": 3}),
    "terms in the version without them": json.dumps({**PLAIN, "terms": TERMS}),
    "terms without a queue": json.dumps({**PLAIN, "v": 2, "terms": {"atUs": 5, "preemptible": True}}),
    "terms without protection": json.dumps({**PLAIN, "v": 2, "terms": {"queue": "team", "atUs": 5}}),
    "an empty queue": bound_with(queue=""),
    "a queue of 2,000 characters": bound_with(queue="q" * 2000),
    "a queue as a number": bound_with(queue=7),
    "an unknown term": bound_with(bonus=1),
    "a run time of nothing": bound_with(runTimeUs=0),
    "a run time below nothing": bound_with(runTimeUs=-5),
    "a run time of a thousand years": bound_with(runTimeUs=10**18),
    "a run time as text": bound_with(runTimeMaxUs="1h"),
    "a run time with a fraction": bound_with(runTimeMaxUs=1.5),
    "a moment before 1970": bound_with(atUs=-1),
    "a moment beyond 64 bits": bound_with(atUs=2**70),
    "a checkpoint beyond 64 bits": bound_with(checkpointedAtUs=2**70),
    "a priority beyond 32 bits": bound_with(priority=2**31),
    "interruptible as text": bound_with(interruptible="true"),
    "a promise behind nobody": bound_with(seats=[{"holder": ""}]),
    "a promise with a time below nothing": bound_with(seats=[{"holder": "h", "withinUs": -1}]),
    "2,000 promises": bound_with(seats=[{"holder": "h"}] * 2000),
    "a gang of nobody": bound_in_gang(minMembers=0),
    "a gang without a name": bound_in_gang(name=""),
    "a role of nobody": bound_in_gang(roleMinimums=[["worker", 0]]),
    "slices of nobody": bound_in_gang(slices=[{"level": "rack", "size": 0}]),
    "an unknown word of a gang": bound_in_gang(pods=7),
    "a term twice": '{"v":2,"epoch":7,"terms":{"queue":"a","atUs":5,"queue":"b"}}',
    "terms twice": '{"v":2,"epoch":7,"terms":{"queue":"a","atUs":5},"terms":{"queue":"b","atUs":5}}',
    "a version before the first": json.dumps({**PLAIN, "v": 0}),
    "a version as text": json.dumps({**PLAIN, "v": "1"}),
    "a negative epoch": json.dumps({**PLAIN, "epoch": -1}),
    "an epoch past 32 bits": json.dumps({**PLAIN, "epoch": 2**31}),
    "a fraction as epoch": json.dumps({**PLAIN, "epoch": 1.5}),
    "NaN": '{"v":1,"epoch":NaN}',
    "an infinite epoch": '{"v":1,"epoch":1e999}',
    "an unknown field": json.dumps({**PLAIN, "more": 1}),
    "a misspelt field of a device": json.dumps(
        {"v": 1, "epoch": 7, "containers": {"c": [{"id": "G", "milli": 5}]}}
    ),
    "a list of containers": json.dumps({"v": 1, "epoch": 7, "containers": [{"id": "GPU-1"}]}),
    "negative milli": json.dumps(
        {"v": 1, "epoch": 7, "containers": {"c": [{"id": "G", "kind": "share", "gpuMilli": -1}]}}
    ),
    "more than a GPU": json.dumps(
        {"v": 1, "epoch": 7, "containers": {"c": [{"id": "G", "kind": "share", "gpuMilli": 1001}]}}
    ),
    "half a whole GPU": json.dumps({"v": 1, "epoch": 7, "containers": {"c": [{"id": "G", "gpuMilli": 500}]}}),
    "negative memory": json.dumps({"v": 1, "epoch": 7, "containers": {"c": [{"id": "G", "memoryMiB": -5}]}}),
    "MIG without a place": json.dumps(
        {"v": 1, "epoch": 7, "containers": {"c": [{"id": "G", "kind": "mig"}]}}
    ),
    "a MIG profile on a whole GPU": json.dumps(
        {"v": 1, "epoch": 7, "containers": {"c": [{"id": "G", "migProfile": "1g.5gb", "migStart": 0}]}}
    ),
    "a device twice": json.dumps({"v": 1, "epoch": 7, "containers": {"c": [{"id": "G"}, {"id": "G"}]}}),
    "a key twice": '{"v":1,"epoch":7,"epoch":8}',
    "a container twice": '{"v":1,"epoch":7,"containers":{"c":[{"id":"A"}],"c":[{"id":"B"}]}}',
    "no id": json.dumps({"v": 1, "epoch": 7, "containers": {"c": [{"id": ""}]}}),
    "a device that was only counted": json.dumps(
        {"v": 1, "epoch": 7, "containers": {"c": [{"id": f"{ANONYMOUS}0"}]}}
    ),
    "10,000 levels": DEEP,
    "10,000 levels inside": f'{{"v":1,"epoch":7,"containers":{DEEP}}}',
    "a byte order mark": "\ufeff" + json.dumps(PLAIN),
    "a lone surrogate": '{"v":1,"epoch":7,"containers":{"\ud800":[]}}',
    "NUL": json.dumps(PLAIN) + "\0",
    "300 KiB": json.dumps({**PLAIN, "containers": {"c": [{"id": "x" * 300_000}]}}),
}


@pytest.mark.parametrize("text", BAD_GRANTS.values(), ids=BAD_GRANTS.keys())
def test_a_doubtful_grant_is_refused_in_one_harmless_line(text: str) -> None:
    with pytest.raises(ObjectError) as caught:
        read_grant(text)
    assert caught.value.field.startswith("metadata.annotations[gpufleet.io/grant]")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


def devices(*names: str, memory_mib: int | None = 1000) -> list[Device]:
    return [Device(DeviceId(name), memory_mib=memory_mib) for name in names]


def dealt(grant: Grant) -> dict[str, list[str]]:
    return {part.container: [device.id for device in part.devices] for part in grant.containers}


def test_containers_that_run_together_share_nothing() -> None:
    grant = make_grant(
        [GpuContainer("a", 1), GpuContainer("b", 2)], GpuRequest(3, 1000), devices("x", "y", "z"), 7
    )
    assert dealt(grant) == {"a": ["x"], "b": ["y", "z"]}
    assert grant.epoch == 7


def test_an_init_container_lends_its_devices_to_those_after_it() -> None:
    order = [GpuContainer("check", 2, lends=True), GpuContainer("train", 2)]
    grant = make_grant(order, GpuRequest(2, 1000), devices("x", "y"), 7)
    assert dealt(grant) == {"check": ["x", "y"], "train": ["x", "y"]}
    assert [device.id for device in granted_devices(grant)] == ["x", "y"]


def test_a_sidecar_keeps_what_it_has() -> None:
    order = [GpuContainer("check", 2, lends=True), GpuContainer("proxy", 1), GpuContainer("train", 2)]
    grant = make_grant(order, GpuRequest(3, 1000), devices("x", "y", "z"), 7)
    assert dealt(grant) == {"check": ["x", "y"], "proxy": ["x"], "train": ["y", "z"]}


def test_a_share_by_fraction_gets_its_part_of_the_memory() -> None:
    grant = make_grant([GpuContainer("a", 1)], GpuRequest(1, 250), devices("x"), 7)
    assert granted_devices(grant) == (GrantedDevice(DeviceId("x"), GrantKind.SHARE, 250, 250),)


def test_a_share_by_memory_gets_that_memory() -> None:
    grant = make_grant([GpuContainer("a", 1)], GpuRequest(1, 0, 300), devices("x"), 7)
    assert granted_devices(grant) == (GrantedDevice(DeviceId("x"), GrantKind.SHARE, 0, 300),)


def test_memory_that_nobody_knows_is_not_granted_as_zero() -> None:
    grant = make_grant([GpuContainer("a", 1)], GpuRequest(1, 500), devices("x", memory_mib=None), 7)
    assert granted_devices(grant)[0].memory_mib is None


def test_devices_without_ids_make_a_grant_without_containers() -> None:
    grant = make_grant([GpuContainer("a", 1)], GpuRequest(1, 1000), devices(f"{ANONYMOUS}0"), 7)
    assert grant == Grant(7)


def test_an_instance_that_is_asked_for_as_a_gpu_is_granted_by_card_and_place() -> None:
    ids = ("GPU-1::1g.10gb@4", "GPU-1::2g.20gb@0::1")
    its = [Device(DeviceId(name), GpuModelName("H100-80GB"), 9_856) for name in ids]
    grant = make_grant([GpuContainer("a", 2)], GpuRequest(2, 1000), its, 7)
    assert granted_devices(read_grant(write_grant(grant))) == (
        GrantedDevice(DeviceId("GPU-1"), GrantKind.MIG, 142, 9_856, "1g.10gb", 4),
        GrantedDevice(DeviceId("GPU-1::1"), GrantKind.MIG, 285, 9_856, "2g.20gb", 0),
    )
    assert "MIG-" not in write_grant(grant)
    assert [one.device for one in granted_devices(grant)] == list(ids)
