"""The corpus of malformed configurations of sharing, inputs 30 to 37, and what is said of each.

A file for each below ``tests/corpus/devices/sharing-inputs``, for a node of the pool ``training`` with two
A100-40GB; one of a megabyte is made here. Of input 37, time zones, prices and windows are no part of sharing.
"""

from pathlib import Path

CORPUS = Path(__file__).parents[1] / "corpus" / "devices" / "sharing-inputs"
GPUS = "model: A100-40GB, count: 2"
MEGABYTE = "36-a-megabyte"
EMPTY = "Expected `object`, got `null`|the file is empty"
"""Where nothing is, nobody knows in which format."""

OWN = {
    "30-no-version": "missing required field `version`",
    "30-no-pools": "missing required field `pools`",
    "31-tabs": r"not YAML.*line 3",
    "31-bomb": "too many values",
    "32-misspelt": r"timeSlcie: .*did you mean timeSlice",
    "32-misspelt-deep": "did you mean replicas",
    "33-duplicate": r"training\[0\]\.gpus: is written twice",
    "33-duplicate-pool": "pools.a: is written twice",
    "34-profile": "one of 1g.5gb",
    "34-start": "no placement",
    "34-eight-slices": "overlap",
    "34-too-many": "do not fit",
    "34-overlap": r"layout.start: instances overlap, found 3",
    "35-two-entries": r"training\[1\]\.gpus: a GPU in two entries.*only in pools.training\[0\]",
    "35-index-and-model": "in two entries",
    "35-index-and-uuid": "named twice",
    "35-two-rests": "rest is in two",
    "35-past-the-last": "no GPU of this index, found 2; expected 0 to 1",
    "36-emptied": EMPTY,
    "36-emptied-but-for-a-comment": EMPTY,
    MEGABYTE: "longer than 262144 bytes|is larger than 256 KiB",
    "37-no": "'no' means different",
    "37-on": "'on' means different",
    "37-010": r"gpus\[0\]: '010' means different",
    "37-quoted": "Expected `int`, got `str`",
}
"""In our own format: the name of the file, and what is said, as a pattern."""

PLUGIN = {
    "31-tabs": "not YAML.*line 3",
    "31-bomb": "too many values",
    "32-misspelt": r"flags\.migStrategie.*did you mean migStrategy",
    "32-wrong-case": "did you mean migStrategy",
    "32-wrong-place": "did you mean flags.migStrategy",
    "33-duplicate": r"flags: is written twice \(line 3\)",
    "36-emptied": "the file is empty",
    MEGABYTE: "longer than 262144 bytes|is larger than 256 KiB",
    "37-no": "'no' means different",
    "37-on": "'on' means different",
    "37-010": "'010' means different",
    "37-list": "Expected `object`, got `array`",
}
"""In the format of NVIDIA's device plugin."""


def text(form: str, name: str) -> str:
    """A text of the corpus, in the form ``own`` or ``plugin``."""
    if name == MEGABYTE:
        return "#" * 2**20
    return (CORPUS / form / f"{name}.yaml").read_text(encoding="utf-8")
