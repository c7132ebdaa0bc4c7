"""Malformed configurations of sharing: each is refused when it is read, with the field and the way out.

The numbers are those of the catalogue of malformed inputs. Whoever asked keeps the plans it has.
"""

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.devices.device_errors import SharingError
from gpufleet.devices.sharing.chosen import chosen_key
from gpufleet.devices.sharing.own import read_sharing
from gpufleet.devices.sharing.plugin import read_plugin_config
from tests.devices.fleets import fleet_of
from tests.devices.sharing_inputs import CORPUS, GPUS, MEGABYTE, OWN, PLUGIN, text

FLEET = fleet_of(GPUS)


def read_own(written: str) -> None:
    read_sharing(written, FLEET, "training", "sharing.yaml")


def test_30_a_key_that_is_missing_is_named_with_those_there_are() -> None:
    with pytest.raises(SharingError, match="one of a100, t4"):
        chosen_key(["a100", "t4"], "a30x")


@pytest.mark.parametrize(("name", "problem"), OWN.items(), ids=OWN)
def test_our_own_format(name: str, problem: str) -> None:
    with pytest.raises(SharingError, match=problem):
        read_own(text("own", name))


@pytest.mark.parametrize(("name", "problem"), PLUGIN.items(), ids=PLUGIN)
def test_the_device_plugins_format(name: str, problem: str) -> None:
    with pytest.raises(SharingError, match=problem):
        read_plugin_config(text("plugin", name))


@pytest.mark.parametrize(("form", "known"), [("own", OWN), ("plugin", PLUGIN)])
def test_every_file_of_the_corpus_is_tried(form: str, known: dict[str, str]) -> None:
    assert {path.stem for path in (CORPUS / form).iterdir()} == known.keys() - {MEGABYTE}


def test_31_a_bomb_costs_little_memory() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(SharingError):
            read_own(text("own", "31-bomb"))
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
    written = json.dumps(document)
    for read in (read_own, read_plugin_config):
        try:
            read(written)
        except SharingError as error:
            problem = str(error)
        else:
            problem = ""
        assert "\n" not in problem
