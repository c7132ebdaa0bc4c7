"""What images require, judged as NVIDIA's container toolkit judges it."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.model.cuda_compatibility import Toolkit
from gpufleet.model.cuda_requirement import Requirement, parse_requirement
from gpufleet.model.errors import InputError

FIELD = "NVIDIA_REQUIRE_CUDA"
# The beginnings of what nvidia/cuda 12.4, 12.8 and 13.0 require, and all of it for 11.0.
CUDA_12_4 = (
    "cuda>=12.4 brand=tesla,driver>=470,driver<471 brand=geforce,driver>=470,driver<471"
    " brand=tesla,driver>=525,driver<526 brand=tesla,driver>=535,driver<536"
)
CUDA_12_8 = "cuda>=12.8 brand=unknown,driver>=470,driver<471 brand=grid,driver>=535,driver<536"
CUDA_13_0 = "cuda>=13.0 brand=unknown,driver>=535,driver<536 brand=tesla,driver>=550,driver<551"
CUDA_11_0 = (
    "cuda>=11.0 brand=tesla,driver>=418,driver<419 brand=tesla,driver>=440,driver<441"
    " brand=tesla,driver>=450,driver<451"
)


def required(text: str) -> Requirement:
    """The requirement in a text."""
    return parse_requirement(text, field=FIELD)


@pytest.mark.parametrize(
    ("text", "facts", "holds"),
    [
        (CUDA_12_4, {"cuda": "12.4", "driver": "550.54.14", "brand": "Tesla"}, True),
        (CUDA_12_4, {"cuda": "13.0", "driver": "580.65.06", "brand": "GeForce"}, True),
        (CUDA_12_4, {"cuda": "12.2", "driver": "535.104.05", "brand": "Tesla"}, True),
        (CUDA_12_4, {"cuda": "12.2", "driver": "535.104.05", "brand": "GeForce"}, False),
        (CUDA_12_4, {"cuda": "12.3", "driver": "545.23.06", "brand": "Tesla"}, False),
        (CUDA_12_4, {"cuda": "11.4", "driver": "470.82.01", "brand": "geforce"}, True),
        (CUDA_12_4, {"driver": "545.23.06", "brand": "Tesla"}, None),
        (CUDA_12_4, {"cuda": "12.3", "driver": "545.23.06"}, False),
        (CUDA_12_4, {"cuda": "12.2", "driver": "535.104.05"}, None),
        ("", {}, True),
        ("  ", {}, True),
        ("cuda>=12.0", {"cuda": "12"}, True),
        ("cuda>12", {"cuda": "12.0.0"}, False),
        ("driver>=470.82", {"driver": "470"}, False),
        ("arch!=7.5", {"arch": "8.0"}, True),
        ("cuda=11.8,driver<=520.61.05", {"cuda": "11.8", "driver": "520.61.05"}, True),
        ("cuda>=11.6 foo=bar", {"cuda": "11.0"}, None),
        ("cuda>=11.6", {"cuda": "eleven"}, None),
    ],
)
def test_it_holds_where_an_alternative_holds(text: str, facts: dict[str, str], holds: object) -> None:
    assert required(text).holds(facts) is holds


@pytest.mark.parametrize(
    "text",
    ["notvalid", "cuda=foo", "cuda>=", ">=12.4", "cuda=>12", "brand<tesla", "cuda==12", "cuda>=12.4.x"],
)
def test_what_the_toolkit_refuses_is_refused_by_field(text: str) -> None:
    with pytest.raises(InputError) as caught:
        required(text)
    assert caught.value.field == FIELD


@pytest.mark.parametrize(
    ("text", "toolkit"),
    [
        (CUDA_12_4, Toolkit(12, 4)),
        (CUDA_12_8, Toolkit(12, 8)),
        (CUDA_13_0, Toolkit(13, 0)),
        (CUDA_11_0, Toolkit(11, 0)),
        ("cuda>=12.4", Toolkit(12, 4)),
        # Whoever lets an older driver in by himself knows better than a table.
        ("cuda>=12.4 driver>=418", None),
        ("cuda>=12.4 brand=tesla", None),
        ("cuda>=12.4 cuda>=11.0", None),
        ("cuda>=12.4 cuda<11.0", None),
        ("cuda>=99.0", None),
        ("driver>=525", None),
        ("", None),
    ],
)
def test_images_as_nvidia_makes_them_tell_their_toolkit(text: str, toolkit: Toolkit | None) -> None:
    assert required(text).toolkit() == toolkit


@given(st.text(alphabet="cudabrnive<>=!,. 0123456789", max_size=80))
def test_no_text_fails_otherwise_than_by_being_refused(text: str) -> None:
    with suppress(InputError):
        found = required(text)
        found.toolkit()
        found.holds({"cuda": "12.4", "driver": "550.54.14"})
