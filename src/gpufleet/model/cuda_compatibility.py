"""Which NVIDIA drivers run programs that were built with which CUDA toolkit.

A driver runs the toolkits that are older than itself. Within one major version of CUDA it also runs
newer ones, with fewer features, from a floor on (minor version compatibility, CUDA 11 and later). Below
that floor only an image that brings the package ``cuda-compat`` may run, and only on cards of data
centres, some workstation cards and Jetson boards (forward compatibility); whether an image brings it
cannot be seen from outside, so that is neither a yes nor a no.

The tables are data with a date. What they do not list is unknown, and never taken for a yes.
``cuda_images`` and ``cuda_requirement`` tell which toolkit an image is of.
"""

import enum
import functools
import re

import msgspec

AS_OF = "2026-11-23"
"""When the tables were last compared with NVIDIA's: release notes of CUDA 13.3 Update 1, tables 2 and 3;
docs.nvidia.com/deploy/cuda-compatibility; the NVIDIA_REQUIRE_CUDA of the images nvidia/cuda."""

DriverVersion = tuple[int, ...]

_DRIVER = re.compile(r"([0-9]{3})\.([0-9]{1,3})(?:\.([0-9]{1,3}))?")
_TOOLKIT = re.compile(r"([0-9]{1,2})\.([0-9]{1,2})(?:\.([0-9]{1,2}))?")


class Toolkit(msgspec.Struct, frozen=True):
    """A CUDA toolkit: 12.4, or 12.4.1, which is Update 1 of it. ``update`` is None where it is not said."""

    major: int
    minor: int
    update: int | None = None

    def __str__(self) -> str:
        """The version as NVIDIA writes it: "12.4" or "12.4.1"."""
        update = "" if self.update is None else f".{self.update}"
        return f"{self.major}.{self.minor}{update}"


class Family(msgspec.Struct, frozen=True):
    """What holds for all toolkits of one major version, on Linux.

    ``floor`` is the least driver by minor version compatibility; None before CUDA 11, which has none.
    ``forward_from`` is the oldest driver branch on which some package ``cuda-compat`` of the family is
    supported.
    """

    floor: DriverVersion | None
    forward_from: int


FAMILIES: dict[int, Family] = {
    13: Family((580, 65, 6), 535),
    12: Family((525, 60, 13), 450),
    11: Family((450, 80, 2), 418),
    10: Family(None, 384),
}


def driver_feature(major: int) -> str:
    """How a driver for a major version of CUDA is called among a node's features; no kubelet declares it."""
    return f"driver for CUDA {major}"


ALL_DRIVER_FEATURES = tuple(driver_feature(major) for major in sorted(FAMILIES))
DRIVER_FEATURES = frozenset(ALL_DRIVER_FEATURES)
"""For tests of membership: a node's feature that tells of CUDA, and not of a kubelet or of a CSI driver."""

_PACKAGED = """
13.3  610.43.02 610.43.02
13.2  595.45.04 595.58.03 595.71.05
13.1  590.44.01 590.48.01
13.0  580.65.06 580.82.07 580.95.05
12.9  575.51.03 575.57.08
12.8  570.26 570.124.06
12.6  560.28.03 560.35.03 560.35.03 560.35.05
12.5  555.42.02 555.42.06
12.4  550.54.14 550.54.15
12.3  545.23.06 545.23.08
12.2  535.54.03 535.86.09 535.104.05
12.1  530.30.02
12.0  525.60.13 525.85.12
11.8  520.61.05
11.7  515.43.04 515.48.07
11.6  510.39.01 510.47.03 510.47.03
11.5  495.29.05
11.4  470.42.01
11.3  465.19.01
11.2  460.27.03
11.1  455.23
11.0  450.36.06
10.2  440.33
10.1  418.39
10.0  410.48
"""
# The driver that each toolkit came with: the first release, then each update. There is no 12.7. CUDA 13.4
# came without one, its first release is 13.4.1, and which driver it asks for was not read: it is not listed.


class Support(enum.Enum):
    """Whether a driver runs a toolkit's programs."""

    OK = "ok"
    OK_BY_MINOR_VERSION = "ok by minor version compatibility"
    NO = "no"
    UNKNOWN = "unknown"


class CompatibilityVerdict(msgspec.Struct, frozen=True):
    """The answer, and why. ``least_driver`` is the oldest that would do, where the answer is no."""

    support: Support
    reason: str
    least_driver: str = ""


def parse_driver(text: str) -> DriverVersion | None:
    """A version of NVIDIA's Linux driver, such as "550.54.14"; None for any other text."""
    found = _DRIVER.fullmatch(text)
    return None if found is None else tuple(int(part) for part in found.groups() if part is not None)


def parse_toolkit(text: str) -> Toolkit | None:
    """A toolkit's version, such as "12.4" or "12.4.1"; None for any other text."""
    found = _TOOLKIT.fullmatch(text)
    if found is None:
        return None
    update = found[3]
    return Toolkit(int(found[1]), int(found[2]), None if update is None else int(update))


def write_driver(driver: DriverVersion) -> str:
    """The version as NVIDIA writes it: minor and revision with two digits or more."""
    return ".".join([str(driver[0]), *(f"{part:02}" for part in driver[1:])])


def _read_packaged() -> dict[tuple[int, int], tuple[DriverVersion, ...]]:
    found = {}
    for line in _PACKAGED.split("\n"):
        words = line.split()
        toolkit = parse_toolkit(words[0]) if words else None
        if toolkit is not None:
            drivers = (parse_driver(word) for word in words[1:])
            found[toolkit.major, toolkit.minor] = tuple(one for one in drivers if one is not None)
    return found


PACKAGED = _read_packaged()
"""The driver that each toolkit came with, by (major, minor): the first release, then each update."""


@functools.lru_cache(maxsize=4096)
def supports(
    driver: DriverVersion, toolkit: Toolkit, *, forward_compatible: bool = True
) -> CompatibilityVerdict:
    """Whether a driver runs what was built with a toolkit.

    ``forward_compatible`` is False for cards that surely have no forward compatibility (GeForce, Titan).
    """
    family = FAMILIES.get(toolkit.major)
    if family is None:
        return CompatibilityVerdict(Support.UNKNOWN, f"CUDA {toolkit.major} is not in the table of {AS_OF}")
    packaged = _packaged(toolkit)
    if packaged is not None and driver >= packaged:
        return CompatibilityVerdict(Support.OK, f"CUDA {toolkit} came with driver {write_driver(packaged)}")
    listed = (toolkit.major, toolkit.minor) in PACKAGED
    # Within a family of CUDA any driver of the family runs it, with limits (minor compatibility).
    if family.floor is not None and driver >= family.floor:
        return _within_the_family(toolkit, family.floor, listed=listed)
    least = _least(toolkit, family, listed=listed)
    if driver >= least:
        return CompatibilityVerdict(Support.UNKNOWN, f"CUDA {toolkit} is not in the table of {AS_OF}")
    if forward_compatible and driver[0] >= family.forward_from:
        package = f"cuda-compat-{toolkit.major}-{toolkit.minor}"
        reason = (
            f"below {write_driver(least)} it takes the package {package} in the image and a suitable card"
        )
        return CompatibilityVerdict(Support.UNKNOWN, reason)
    written = write_driver(least)
    return CompatibilityVerdict(Support.NO, f"CUDA {toolkit} needs driver {written} or newer", written)


@functools.lru_cache(maxsize=1024)
def refused_majors(driver: DriverVersion, *, forward_compatible: bool = True) -> tuple[int, ...]:
    """The major versions of CUDA of which the driver surely runs no toolkit, ascending."""
    return tuple(
        major
        for major in sorted(FAMILIES)
        if all(
            supports(driver, Toolkit(*listed), forward_compatible=forward_compatible).support is Support.NO
            for listed in PACKAGED
            if listed[0] == major
        )
    )


def _within_the_family(toolkit: Toolkit, floor: DriverVersion, *, listed: bool) -> CompatibilityVerdict:
    if not listed:
        return CompatibilityVerdict(Support.UNKNOWN, f"CUDA {toolkit} is not in the table of {AS_OF}")
    reason = f"any driver from {write_driver(floor)} on runs CUDA {toolkit.major}, with fewer features"
    return CompatibilityVerdict(Support.OK_BY_MINOR_VERSION, reason)


def _packaged(toolkit: Toolkit) -> DriverVersion | None:
    """The driver that surely has all that a toolkit needs; None where the table lacks the toolkit.

    An update that is not listed gets the driver of the next toolkit.
    """
    drivers = PACKAGED.get((toolkit.major, toolkit.minor))
    if drivers is None:
        return None
    update = toolkit.update or 0
    if update < len(drivers):
        return drivers[update]
    return min(
        (later[0] for key, later in PACKAGED.items() if key > (toolkit.major, toolkit.minor)), default=None
    )


def _least(toolkit: Toolkit, family: Family, *, listed: bool) -> DriverVersion:
    """The oldest driver that may run a toolkit by itself."""
    own = PACKAGED[toolkit.major, toolkit.minor][0] if listed else None
    known = [driver for driver in (own, family.floor) if driver is not None]
    return (
        min(known)
        if known
        else min(drivers[0] for key, drivers in PACKAGED.items() if key[0] == toolkit.major)
    )
