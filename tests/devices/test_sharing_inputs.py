"""Malformed configurations of sharing: each is refused at the door, with the field and the way out.

The numbers are those of the catalogue of malformed inputs. Whoever asked keeps the plans it has.
"""

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.devices.errors import SharingError
from gpufleet.devices.sharing.chosen import chosen_key
from gpufleet.devices.sharing.own import read_sharing
from gpufleet.devices.sharing.plugin import read_plugin_config
from tests.devices.fleets import fleet_of

FLEET = fleet_of("model: A100-40GB, count: 2")
BOMB = "x0: &x0 [a, a, a, a, a, a, a, a, a, a]\n" + "".join(
    f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 10)}]\n" for n in range(1, 12)
)


def read_own(text: str) -> None:
    read_sharing(text, FLEET, "training", "sharing.yaml")


def entries(*lines: str) -> str:
    """A document of our own format with these entries."""
    rows = "".join(f"  - {{{line}}}\n" for line in lines)
    return f"version: gpufleet.io/v1alpha1\npools:\n  training:\n{rows}"


def test_30_a_key_that_is_missing_is_named_with_those_there_are() -> None:
    with pytest.raises(SharingError, match="one of a100, t4"):
        chosen_key(["a100", "t4"], "a30x")


OWN = [
    ("30-no-version", "pools: {}", "missing required field `version`"),
    ("30-no-pools", "version: gpufleet.io/v1alpha1", "missing required field `pools`"),
    ("31-tabs", "version: gpufleet.io/v1alpha1\npools:\n\ttraining: []", r"not YAML.*line 3"),
    ("31-bomb", BOMB, "too many values"),
    ("32-misspelt", entries("gpus: [0], timeSlcie: {replicas: 2}"), r"timeSlcie: .*did you mean timeSlice"),
    ("32-misspelt-deep", entries("gpus: [0], timeSlice: {replica: 2}"), "did you mean replicas"),
    (
        "33-duplicate",
        entries("gpus: [0], gpus: [1], exclusive: {}"),
        r"training\[0\]\.gpus: is written twice",
    ),
    ("33-duplicate-pool", "version: a\npools: {a: [], a: []}", "pools.a: is written twice"),
    ("34-profile", entries("gpus: [0], mig: {layout: [{profile: 1g.10gb+me, start: 0}]}"), "one of 1g.5gb"),
    ("34-start", entries("gpus: [0], mig: {layout: [{profile: 3g.20gb, start: 1}]}"), "no placement"),
    (
        "34-eight-slices",
        entries(f"gpus: [0], mig: {{layout: [{', '.join(['{profile: 1g.5gb, start: 0}'] * 8)}]}}"),
        "overlap",
    ),
    ("34-too-many", entries("gpus: [0], mig: {profiles: {4g.20gb: 1, 3g.20gb: 2}}"), "do not fit"),
    (
        "34-overlap",
        entries("gpus: [0], mig: {layout: [{profile: 3g.20gb, start: 0}, {profile: 1g.5gb, start: 3}]}"),
        r"layout.start: instances overlap, found 3",
    ),
    (
        "35-two-entries",
        entries("gpus: [0, 1], exclusive: {}", "gpus: [1], timeSlice: {replicas: 2}"),
        r"training\[1\]\.gpus: a GPU in two entries.*only in pools.training\[0\]",
    ),
    (
        "35-index-and-model",
        entries("gpus: [0], exclusive: {}", "gpus: {model: A100-40GB}, timeSlice: {replicas: 2}"),
        "in two entries",
    ),
    (
        "35-index-and-uuid",
        entries(f"gpus: [0, {FLEET.gpus[0].uuid}], exclusive: {{}}"),
        "named twice",
    ),
    ("35-two-rests", entries("gpus: rest, exclusive: {}", "gpus: rest, exclusive: {}"), "rest is in two"),
    (
        "35-past-the-last",
        entries("gpus: [2], exclusive: {}"),
        "no GPU of this index, found 2; expected 0 to 1",
    ),
    ("36-emptied", "", "Expected `object`, got `null`"),
    ("36-emptied-but-for-a-comment", "# nothing\n", "Expected `object`, got `null`"),
    ("36-a-megabyte", "#" * 2**20, "too large, found 1048576"),
    ("37-no", entries("gpus: [0], timeSlice: {replicas: 2, renameByDefault: no}"), "'no' means different"),
    ("37-on", entries("gpus: [0], timeSlice: {replicas: 2, renameByDefault: on}"), "'on' means different"),
    ("37-010", entries("gpus: [010], exclusive: {}"), r"gpus\[0\]: '010' means different"),
    ("37-quoted", entries("gpus: [0], timeSlice: {replicas: '2'}"), "Expected `int`, got `str`"),
]

PLUGIN = [
    ("31-tabs", "version: v1\nflags:\n\tmigStrategy: none", "not YAML.*line 3"),
    ("31-bomb", BOMB, "too many values"),
    ("32-misspelt", "flags: {migStrategie: none}", r"flags\.migStrategie.*did you mean migStrategy"),
    ("32-wrong-case", "flags: {migstrategy: none}", "did you mean migStrategy"),
    ("32-wrong-place", "migStrategy: none", "did you mean migStrategy"),
    (
        "33-duplicate",
        "version: v1\nflags: {migStrategy: none}\nflags: {}",
        r"flags: is written twice \(line 3\)",
    ),
    ("36-emptied", "", "the file is empty"),
    ("36-a-megabyte", "#" * 2**20, "too large"),
    ("37-no", "flags: {failOnInitError: no}", "'no' means different"),
    ("37-on", "flags: {gdsEnabled: on}", "'on' means different"),
    ("37-010", "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 010}]}}", "'010' means different"),
    ("37-list", "[version, v1]", "Expected `object`, got `array`"),
]


@pytest.mark.parametrize(("text", "problem"), [row[1:] for row in OWN], ids=[row[0] for row in OWN])
def test_our_own_format(text: str, problem: str) -> None:
    with pytest.raises(SharingError, match=problem):
        read_own(text)


@pytest.mark.parametrize(("text", "problem"), [row[1:] for row in PLUGIN], ids=[row[0] for row in PLUGIN])
def test_the_device_plugins_format(text: str, problem: str) -> None:
    with pytest.raises(SharingError, match=problem):
        read_plugin_config(text)


def test_31_a_bomb_costs_little_memory() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(SharingError):
            read_own(BOMB)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 8 * 2**20


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["gpu", "all", "rest", "v1", "gpufleet.io/v1alpha1", "1g.5gb", "none", "mixed"])
)
NAMES = st.sampled_from(
    [
        "version",
        "flags",
        "sharing",
        "mps",
        "timeSlicing",
        "resources",
        "name",
        "replicas",
        "devices",
        "plugin",
        "pools",
        "training",
        "gpus",
        "exclusive",
        "mig",
        "layout",
        "profile",
        "start",
        "profiles",
        "timeSlice",
        "deviceListStrategy",
        "gfd",
        "sleepInterval",
        "imex",
        "channelIDs",
        "clients",
        "memory",
        "fractions",
        "model",
    ]
)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=25,
)


NEARLY_RIGHT = st.builds(
    lambda entries: {"version": "gpufleet.io/v1alpha1", "pools": {"training": entries}},
    st.lists(st.dictionaries(NAMES, DOCUMENTS, max_size=2).map(lambda entry: {"gpus": [0], **entry})),
) | st.builds(lambda resources: {"sharing": {"timeSlicing": {"resources": resources}}}, DOCUMENTS)


@given(DOCUMENTS | NEARLY_RIGHT)
def test_any_document_is_read_or_refused_in_one_line(document: object) -> None:
    text = json.dumps(document)
    for read in (read_own, read_plugin_config):
        try:
            read(text)
        except SharingError as error:
            problem = str(error)
        else:
            problem = ""
        assert "\n" not in problem
