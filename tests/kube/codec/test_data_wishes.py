"""What is wanted on a node, written and read."""

import pytest

from gpufleet.kube.codec.data_wishes import NAMES_MAX, NO_WISH, DataWish, read_wish, write_wish
from gpufleet.model.data import DataAsk
from gpufleet.model.model_errors import InputError

WANTED = "gpufleet.io/data-wanted"
LLAMA, IMAGENET = DataAsk("model/org/llama", "r1"), DataAsk("dataset/imagenet")


def test_a_wish_is_read_as_it_was_written_and_no_wish_is_no_text() -> None:
    wish = DataWish((LLAMA,), (IMAGENET, LLAMA))
    text = write_wish(wish)
    assert text == '{"stage":["model/org/llama@r1"],"keep":["dataset/imagenet","model/org/llama@r1"]}'
    assert read_wish({WANTED: text}) == wish
    assert write_wish(NO_WISH) == ""
    assert read_wish({}) == NO_WISH


def test_a_wish_is_bounded() -> None:
    many = tuple(DataAsk(f"model/{number}") for number in range(100))
    assert read_wish({WANTED: write_wish(DataWish(many))}).stage == many[:NAMES_MAX]


@pytest.mark.parametrize(
    "text",
    ["[]", "{", '{"stage": ["../../etc"]}', '{"keep": [1]}', '{"stage": ["model/"]}', " " * (65 << 10)],
)
def test_what_is_no_wish_is_named(text: str) -> None:
    with pytest.raises(InputError) as caught:
        read_wish({WANTED: text})
    assert caught.value.field == f"metadata.annotations[{WANTED}]"
