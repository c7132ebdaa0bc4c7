"""MIG: how a GPU is cut into instances, and which sets of them may exist together.

A board has a number of memory slices; each profile takes a run of them from one of a few starts.
Instances must not overlap, and on the boards of ``mig_boards`` that is the whole rule: what does not
overlap never needs more compute than there is. So all layouts of a board can be listed, and a choice
between them can be made by value. A layout is a set of placements; where an instance is matters as
much as its size, because the runs that are left decide what still fits.
"""

from collections.abc import Iterable, Iterator

import msgspec

from gpufleet.model.model_errors import InputError


class MigProfile(msgspec.Struct, frozen=True):
    """One size of instance on one board.

    ``memory_slices`` is how many slices it takes, from one of ``starts``; ``maximum`` how many of it
    may exist at once. ``gpu_instance_profile`` is the driver's number for it. ``media_extensions``
    marks the "+me" variant, which has the board's only JPEG and optical-flow engines and exists once.
    What the board's listing does not say is None: ``memory_mib``, ``multiprocessors`` and the counts
    of engines.
    """

    name: str
    compute_slices: int
    memory_slices: int
    starts: tuple[int, ...]
    maximum: int
    gpu_instance_profile: int | None = None
    media_extensions: bool = False
    memory_mib: int | None = None
    multiprocessors: int | None = None
    copy_engines: int | None = None
    decoders: int | None = None

    def slices(self, start: int) -> int:
        """The memory slices that an instance at ``start`` takes, as bits."""
        return ((1 << self.memory_slices) - 1) << start


class MigInstance(msgspec.Struct, frozen=True, order=True):
    """An instance: where it begins, and its profile's name."""

    start: int
    profile: str


Layout = tuple[MigInstance, ...]
"""Instances that exist together, by start."""


class MigGeometry(msgspec.Struct, frozen=True):
    """What a board can be cut into; ``profiles`` from small to large, variants behind their plain form."""

    compute_slices: int
    memory_slices: int
    profiles: tuple[MigProfile, ...]

    def profile(self, name: str) -> MigProfile:
        """The profile of this name. Raises InputError with the names that there are."""
        for one in self.profiles:
            if one.name == name:
                return one
        names = ", ".join(one.name for one in self.profiles)
        raise InputError(
            "no MIG profile of this GPU", field="profile", value=name, expected=f"one of {names}"
        )

    @property
    def plain_profiles(self) -> tuple[MigProfile, ...]:
        """The profiles without media extensions."""
        return tuple(one for one in self.profiles if not one.media_extensions)

    def taken(self, layout: Iterable[MigInstance]) -> int:
        """The memory slices that a layout takes, as bits.

        Raises InputError for what cannot exist: a start that the profile does not have, an overlap,
        more instances of a profile than the board allows.
        """
        taken = 0
        counts: dict[str, int] = {}
        for instance in layout:
            profile = self.profile(instance.profile)
            if instance.start not in profile.starts:
                starts = ", ".join(map(str, profile.starts))
                expected = f"one of {starts} for {profile.name}"
                raise InputError("no placement", field="start", value=instance.start, expected=expected)
            slices = profile.slices(instance.start)
            if taken & slices:
                expected = "slices that no other instance has"
                raise InputError("instances overlap", field="start", value=instance.start, expected=expected)
            taken |= slices
            counts[profile.name] = counts.get(profile.name, 0) + 1
            if counts[profile.name] > profile.maximum:
                expected = f"at most {profile.maximum} of {profile.name}"
                raise InputError("too many instances", field="profile", value=profile.name, expected=expected)
        return taken

    def free_starts(self, profile: MigProfile, taken: int) -> tuple[int, ...]:
        """Where one more instance of a profile fits beside what is taken."""
        return tuple(start for start in profile.starts if not profile.slices(start) & taken)

    def layouts(self, profiles: Iterable[MigProfile] | None = None) -> Iterator[Layout]:
        """Every layout of these profiles, the plain ones unless others are given; the empty one first."""
        chosen = self.plain_profiles if profiles is None else tuple(profiles)
        yield from self._extended((), 0, 0, chosen)

    def is_maximal(self, layout: Layout, profiles: Iterable[MigProfile] | None = None) -> bool:
        """Whether no further instance of these profiles fits."""
        taken = self.taken(layout)
        chosen = self.plain_profiles if profiles is None else profiles
        return not any(self.free_starts(profile, taken) for profile in chosen)

    def placed(self, profiles: Iterable[MigProfile]) -> Layout | None:
        """A layout of one instance of each of these profiles, large ones first; None where there is none."""
        order = sorted(profiles, key=lambda one: (-one.memory_slices, one.name))
        found = self._placed(order, 0, {})
        return None if found is None else tuple(sorted(found))

    def _placed(self, order: list[MigProfile], taken: int, counts: dict[str, int]) -> Layout | None:
        if not order:
            return ()
        first, *others = order
        if counts.get(first.name, 0) == first.maximum:
            return None
        # The last start first: it leaves the low ones to profiles that can begin nowhere else.
        for start in reversed(self.free_starts(first, taken)):
            more = {**counts, first.name: counts.get(first.name, 0) + 1}
            rest = self._placed(others, taken | first.slices(start), more)
            if rest is not None:
                return (MigInstance(start, first.name), *rest)
        return None

    def _extended(
        self, layout: Layout, taken: int, first: int, profiles: tuple[MigProfile, ...]
    ) -> Iterator[Layout]:
        """The layout itself, then it with each further instance that begins at ``first`` or after it."""
        yield layout
        for start in range(first, self.memory_slices):
            for profile in profiles:
                if start in profile.starts and not profile.slices(start) & taken:
                    longer = (*layout, MigInstance(start, profile.name))
                    yield from self._extended(longer, taken | profile.slices(start), start + 1, profiles)


def profile_gb(instance_mib: int, total_mib: int) -> int:
    """The GB figure in a profile's name: an instance's share in eighths, of the card's GiB rounded up.

    The rule of the driver's Go bindings; drivers differ, so a card's own report always wins.
    """
    eighths = -(-8 * instance_mib // total_mib)
    total_gib = -(-total_mib // 1024)
    return round(eighths / 8 * total_gib)
