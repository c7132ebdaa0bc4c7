"""The tables about CUDA that are data: ``tables.json`` beside this module, each part with date and sources.

Which driver came with which toolkit, and the floors of minor version compatibility, the scheduler needs
too: they are in ``model.cuda_compatibility``, with a date of their own. What a table here does not list is
unknown.
"""

import functools
import importlib.resources

import msgspec

from gpufleet.model.cuda_compatibility import Toolkit, parse_toolkit


class Architecture(msgspec.Struct, frozen=True):
    """GPUs of the same compute capability or nearly so.

    ``last_toolkit`` is a version ("10.2") or a whole major version ("12"); empty while it goes on.
    ``last_branch`` is the last driver branch that drives them, None while that goes on. ``first_branch`` is a
    branch before which none knows them, None where no source says it.
    """

    name: str
    capabilities: tuple[str, ...]
    first_toolkit: str
    last_toolkit: str = ""
    last_branch: int | None = None
    first_branch: int | None = None


class Architectures(msgspec.Struct, frozen=True):
    """Which toolkits build for which GPUs."""

    as_of: str
    sources: tuple[str, ...]
    rows: tuple[Architecture, ...]

    def of(self, capability: str) -> Architecture | None:
        """The row of a compute capability such as "8.6"."""
        return next((row for row in self.rows if capability in row.capabilities), None)

    def older_code(self, capability: str) -> tuple[str, Toolkit] | None:
        """The oldest capability with code that also runs there, and the first toolkit that makes such code.

        Code for x.y runs on x.z where z is not smaller than y.
        """
        major, minor = split(capability)
        found = [
            (split(one)[1], one, version(row.first_toolkit))
            for row in self.rows
            for one in row.capabilities
            if split(one)[0] == major and split(one)[1] <= minor
        ]
        if not found:
            return None
        _, oldest, toolkit = min(found, key=lambda each: each[0])
        return oldest, toolkit


class Reported(msgspec.Struct, frozen=True):
    """Which version of CUDA a driver says it has."""

    as_of: str
    sources: tuple[str, ...]
    cuda_by_branch: dict[int, str]


class Forward(msgspec.Struct, frozen=True):
    """The driver branches and the cards on which the package cuda-compat of a toolkit is supported."""

    as_of: str
    sources: tuple[str, ...]
    branches: dict[str, tuple[int, ...]]
    consumer: tuple[str, ...]
    workstation: tuple[str, ...]


class Brand(msgspec.Struct, frozen=True):
    """A brand of NVML, and how the two runtimes call it; empty where one leaves it out."""

    name: str
    legacy: str
    cdi: str


class Brands(msgspec.Struct, frozen=True):
    """The brands, and those that cards of each kind may have."""

    as_of: str
    sources: tuple[str, ...]
    rows: tuple[Brand, ...]
    of_consumer: tuple[str, ...]
    of_workstation: tuple[str, ...]
    of_data_centre: tuple[str, ...]

    def named(self, name: str) -> Brand | None:
        """The brand of that name, in whatever spelling nvidia-smi has for it ("NVIDIA RTX")."""
        plain = "".join(letter for letter in name.casefold() if letter.isalnum())
        return next((row for row in self.rows if row.name == plain), None)


class Wheels(msgspec.Struct, frozen=True):
    """The compute capabilities that PyTorch's own builds bring code for, by their CUDA."""

    as_of: str
    sources: tuple[str, ...]
    code: dict[str, tuple[str, ...]]

    def of(self, toolkit: Toolkit) -> tuple[str, ...]:
        """Those of the build for this CUDA; none where the build is in no table."""
        return self.code.get(f"{toolkit.major}.{toolkit.minor}", ())

    def with_code_for(self, capability: str) -> tuple[str, ...]:
        """The CUDA of each build that has code for a card."""
        return tuple(one for one, built in self.code.items() if runs_code_for(built, capability))


def runs_code_for(built: tuple[str, ...], capability: str) -> bool:
    """Whether code for one of these runs on a capability: code for x.y runs on x.z where z is not smaller."""
    major, minor = split(capability)
    return any(split(one)[0] == major and split(one)[1] <= minor for one in built)


class Tables(msgspec.Struct, frozen=True):
    """All tables of the package."""

    architectures: Architectures
    reported: Reported
    forward: Forward
    brands: Brands
    wheels: Wheels


@functools.cache
def tables() -> Tables:
    """The tables as they ship."""
    text = importlib.resources.files(__package__).joinpath("tables.json").read_bytes()
    return msgspec.json.decode(text, type=Tables)


def version(text: str) -> Toolkit:
    """A toolkit's version that a table has; only for what ships."""
    found = parse_toolkit(text)
    if found is None:
        raise ValueError(f"tables.json: {text!r} is no version of CUDA")
    return found


def split(capability: str) -> tuple[int, int]:
    """A compute capability such as "8.6" as two numbers."""
    major, _, minor = capability.partition(".")
    return int(major), int(minor)
