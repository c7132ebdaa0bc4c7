"""Texts that are long, and made for patterns that try every way to split them, are answered all the same.

There is no time in these tests: a reader whose work grows faster than its text would not come to an end.
"""

from collections.abc import Callable

import pytest

from gpufleet.kube import keys
from gpufleet.kube.codec.durations import read_duration
from gpufleet.kube.codec.gangs import read_membership
from gpufleet.kube.codec.pod import read_pod
from gpufleet.kube.codec.quota_amounts import read_amount
from gpufleet.kube.codec.times import microseconds
from gpufleet.model import gpu_model
from gpufleet.model.cuda_images import toolkit_of_image
from gpufleet.model.identifiers import QuotaResource
from gpufleet.model.model_errors import InputError
from gpufleet.model.quantity import parse_quantity
from tests.kube.codec.test_fleet_queues import read as read_queue
from tests.kube.shelf import Shelf
from tests.kube.wire_objects import a_pod, limited

LENGTH = 1 << 18
PIECES = (
    "1",
    "a",
    "-",
    ".",
    "1.",
    "a-",
    "a.",
    "1h",
    "1,",
    "A|",
    "-MIG-",
    "cuda",
    "cu1",
    "<1",
    "0Ki",
    "+",
    "=\t",
)
ENDS = ("", "!", "1", "-SHARED!")
TEXTS = tuple(piece * (LENGTH // len(piece)) + end for piece in PIECES for end in ENDS)

READERS: dict[str, Callable[[str], object]] = {
    "time": microseconds,
    "duration": lambda text: read_duration(text, "f"),
    "amount": lambda text: read_amount(QuotaResource("gpu"), text, "f"),
    "quantity": parse_quantity,
    "model": gpu_model.find,
    "model that was meant": gpu_model.nearest_name,
    "image": toolkit_of_image,
    "queue": lambda text: read_queue(
        {
            "parent": text,
            "weight": text,
            "namespaces": [text],
            "namespaceSelector": {"matchLabels": {text: text}},
        },
        text,
    ),
    **{
        key: lambda text, key=key: read_pod(a_pod(annotations={key: text}, labels={key: text}))  # type: ignore[misc]
        for key in sorted(keys.POD_ANNOTATIONS)
    },
    "required CUDA": lambda text: read_pod(
        a_pod(limited("c", {"nvidia.com/gpu": "1"}, env=[{"name": "NVIDIA_REQUIRE_CUDA", "value": text}]))
    ),
    "gang": lambda text: read_membership(a_pod(annotations={keys.GANG: text}), Shelf()),
}


@pytest.mark.parametrize("reader", READERS)
def test_input_47_a_text_made_for_backtracking_is_answered(reader: str) -> None:
    assert all(len(refusal(READERS[reader], text)) < 2000 for text in TEXTS)


def refusal(read: Callable[[str], object], text: str) -> str:
    """What is said against a text, "" if it is taken."""
    try:
        read(text)
    except InputError as error:
        return str(error)
    return ""
