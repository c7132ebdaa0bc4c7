"""The text that stamps and statuses have of the images of a node."""

import pytest

from gpufleet.model.node_images import NodeImages, images_of
from tests.operator.builders import DIGEST, TOOLKIT


@pytest.mark.parametrize(
    ("images", "text"),
    [
        (NodeImages(), ""),
        # As stamps of before had it, when there was no toolkit.
        (NodeImages(DIGEST), DIGEST),
        (NodeImages(toolkit=TOOLKIT), f"toolkit {TOOLKIT}"),
        (NodeImages(DIGEST, TOOLKIT), f"{DIGEST} and toolkit {TOOLKIT}"),
        (NodeImages("toolkit@sha256:aa", "and@sha256:bb"), "toolkit@sha256:aa and toolkit and@sha256:bb"),
    ],
)
def test_what_is_written_is_read_as_it_was(images: NodeImages, text: str) -> None:
    assert images.text() == text
    assert images_of(text) == images
