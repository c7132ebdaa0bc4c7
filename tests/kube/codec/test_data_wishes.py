"""What is wanted on a node, written and read."""

import pytest

from gpufleet.kube.codec.data_wishes import KEEP_MAX, NAMES_MAX, NO_WISH, DataWish, read_wish, write_wish
from gpufleet.model.data import DataAsk
from gpufleet.model.model_errors import InputError

WANTED = "gpufleet.io/data-wanted"
LLAMA, IMAGENET = DataAsk("model/org/llama", "r1"), DataAsk("dataset/imagenet")


def test_a_wish_is_read_as_it_was_written_and_no_wish_is_no_text() -> None:
    wish = DataWish((LLAMA,), (IMAGENET, LLAMA))
    text = write_wish(wish)
    assert text == '{"stage":["model/org/llama@r1"],"keep":["dataset/imagenet","model/org/llama@r1"]}'
    assert read_wish({WANTED: text}) == wish
    images = DataWish(images=("docker.io/org/big:1", f"host.example/b@sha256:{'a' * 64}"))
    assert read_wish({WANTED: write_wish(images)}) == images
    assert write_wish(NO_WISH) == ""
    assert read_wish({}) == NO_WISH


def test_a_wish_is_bounded() -> None:
    many = tuple(DataAsk(f"model/{number}") for number in range(100))
    assert read_wish({WANTED: write_wish(DataWish(many))}).stage == many[:NAMES_MAX]


def test_where_more_is_to_stay_than_is_named_all_stays() -> None:
    many = tuple(DataAsk(f"model/{number}") for number in range(KEEP_MAX + 1))
    all_but_one = read_wish({WANTED: write_wish(DataWish(keep=many[1:]))})
    assert (all_but_one.keep, all_but_one.keep_all) == (many[1:], False)
    assert read_wish({WANTED: write_wish(DataWish(keep=many))}).keep_all is True


@pytest.mark.parametrize(
    "text",
    [
        '{"images": ["busybox"]}',
        '{"images": ["--flag"]}',
        "[]",
        "{",
        '{"stage": ["../../etc"]}',
        '{"keep": [1]}',
        '{"stage": ["model/"]}',
        " " * (129 << 10),
    ],
)
def test_what_is_no_wish_is_named(text: str) -> None:
    with pytest.raises(InputError) as caught:
        read_wish({WANTED: text})
    assert caught.value.field == f"metadata.annotations[{WANTED}]"
