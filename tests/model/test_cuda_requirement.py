"""What images require, read for the toolkit that it tells of."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.model.cuda_compatibility import Toolkit
from gpufleet.model.cuda_requirement import Requirement, parse_requirement
from gpufleet.model.model_errors import InputError

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
        required(text).toolkit()
