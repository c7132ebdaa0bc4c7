"""The images that a rollout brings to a node: a driver, and the vendor's toolkit for the container runtime.

A node gets both in one rollout, since both need it empty. Stamps and statuses name them in one text.
``FleetPolicy.images`` says which ones a policy wants.
"""

import msgspec

DRIVER, TOOLKIT = "driver", "toolkit"
IMAGE_PARTS = (DRIVER, TOOLKIT)
"""The parts in the order in which they come: a toolkit waits for the driver."""

_TOOLKIT_WORD = "toolkit "
_AND = " and "


class NodeImages(msgspec.Struct, frozen=True):
    """Images by digest; "" for a part that is not brought, or not there."""

    driver: str = ""
    toolkit: str = ""

    def of(self, part: str) -> str:
        """The image of one part."""
        return self.driver if part == DRIVER else self.toolkit

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that have an image."""
        return tuple(part for part in IMAGE_PARTS if self.of(part))

    def text(self) -> str:
        """Both in one text, as stamps and statuses have them: "" for none, the image alone for a driver."""
        toolkit = f"{_TOOLKIT_WORD}{self.toolkit}" if self.toolkit else ""
        return _AND.join(part for part in (self.driver, toolkit) if part)


def images_of(text: str) -> NodeImages:
    """What ``text`` wrote; names of images have no blanks, so that no image is taken for another."""
    driver, _, toolkit = text.rpartition(_TOOLKIT_WORD) if _TOOLKIT_WORD in text else (text, "", "")
    return NodeImages(driver.removesuffix(_AND), toolkit)
