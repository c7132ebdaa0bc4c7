"""Texts of vendors as values of labels, and what the labels of all vendors are made with."""

import re

from gpufleet.agent.state.node_state import Gpu, NodeGpus
from gpufleet.devices.facts import Driver
from gpufleet.model.gpu_catalogue import Vendor

Labels = dict[str, str]
# The API server refuses longer values.
VALUE_LENGTH = 63
# The digits of the largest 64-bit number.
NUMBER_LENGTH = 20
_FORBIDDEN = re.compile(r"[^A-Za-z0-9_. -]")
_EDGES = "-_."


def valid_value(text: str, *, ending: str = "", space: str = "-") -> str:
    """A text as the value of a label: blanks become ``space``, other characters that may not be go.

    Where it is too long, the text is cut and not its ``ending``.
    """
    words = space.join(_FORBIDDEN.sub("", text).split())
    kept = words[: VALUE_LENGTH - len(ending)].strip(_EDGES)
    return f"{kept}{ending}".strip(_EDGES)


def is_number(text: str) -> bool:
    """True for plain digits, few enough for a label."""
    return text.isascii() and text.isdigit() and len(text) <= NUMBER_LENGTH


def gpus_of(known: NodeGpus, vendor: Vendor) -> list[Gpu]:
    """The GPUs of one vendor, by index."""
    found = [gpu for gpu in known.gpus if gpu.facts.vendor is vendor]
    return sorted(found, key=lambda gpu: gpu.facts.index)


def driver_of(known: NodeGpus, vendor: Vendor) -> Driver | None:
    """The driver of one vendor."""
    return next((driver for driver in known.drivers if driver.vendor is vendor), None)
