"""The boards that can be cut, by GPU model: profile names and what each instance has.

Placements, profile numbers and figures are those of NVIDIA's MIG User Guide (driver branch 580) and of
public listings of `nvidia-smi mig -lgip` and `-lgipp`. A card's own report always wins: drivers of other
branches name some profiles differently. ``mig`` says what may exist together.
"""

from collections.abc import Mapping, Sequence

from gpufleet.model.identifiers import GpuModelName
from gpufleet.model.mig import MigGeometry, MigProfile

Figures = Sequence[int | None]
Row = tuple[int | None, int, int, tuple[int, ...]]
UNKNOWN: Figures = (None,) * 6
"""One figure for each of a board's profiles, none of them known."""

# Profile number, compute slices, memory slices, starts: 1g, 1g with double memory, 2g, 3g, 4g, 7g.
_SEVEN = (
    (19, 1, 1, (0, 1, 2, 3, 4, 5, 6)),
    (15, 1, 2, (0, 2, 4, 6)),
    (14, 2, 2, (0, 2, 4)),
    (9, 3, 4, (0, 4)),
    (5, 4, 4, (0,)),
    (0, 7, 8, (0,)),
)
_SEVEN_MEDIA = {0: 20}
# 1g, 2g, 4g.
_FOUR = ((14, 1, 1, (0, 1, 2, 3)), (5, 2, 2, (0, 2)), (0, 4, 4, (0,)))
_FOUR_MEDIA = {0: 21, 1: 6}
# Boards of four slices without the profiles' numbers, which are not published, and with media extensions only
# where they are known.
_FOUR_UNNUMBERED = tuple((None, *row[1:]) for row in _FOUR)
_FOUR_UNNUMBERED_MEDIA = {0: None}


def _seven(
    gb: Sequence[int],
    memory_mib: Figures = UNKNOWN,
    multiprocessors: Figures = UNKNOWN,
    copy_engines: Figures = UNKNOWN,
    decoders: Figures = UNKNOWN,
) -> MigGeometry:
    """A board with seven compute and eight memory slices."""
    figures = (memory_mib, multiprocessors, copy_engines, decoders)
    return _board(7, 8, _SEVEN, _SEVEN_MEDIA, gb, figures)


def _four(
    gb: Sequence[int], memory_mib: Figures = UNKNOWN, multiprocessors: Figures = UNKNOWN
) -> MigGeometry:
    """A board with four compute and four memory slices."""
    return _board(4, 4, _FOUR, _FOUR_MEDIA, gb, (memory_mib, multiprocessors, UNKNOWN, UNKNOWN))


def _board(
    compute_slices: int,
    memory_slices: int,
    rows: Sequence[Row],
    media: Mapping[int, int | None],
    gb: Sequence[int],
    figures: tuple[Figures, Figures, Figures, Figures],
) -> MigGeometry:
    """A board of these rows; ``media`` has the number of the variant with media extensions, by row."""
    profiles = []
    for at, (number, compute, memory, starts) in enumerate(rows):
        memory_mib, multiprocessors, copy_engines, decoders = (each[at] for each in figures)
        plain = MigProfile(
            f"{compute}g.{gb[at]}gb",
            compute,
            memory,
            starts,
            len(starts),
            number,
            memory_mib=memory_mib,
            multiprocessors=multiprocessors,
            copy_engines=copy_engines,
            decoders=decoders,
        )
        profiles.append(plain)
        if at in media:
            profiles.append(_with_media(plain, media[at]))
    return MigGeometry(compute_slices, memory_slices, tuple(profiles))


def _with_media(plain: MigProfile, number: int | None) -> MigProfile:
    return MigProfile(
        f"{plain.name}+me",
        plain.compute_slices,
        plain.memory_slices,
        plain.starts,
        1,
        number,
        media_extensions=True,
        memory_mib=plain.memory_mib,
        multiprocessors=plain.multiprocessors,
        copy_engines=plain.copy_engines,
    )


# Multiprocessors and copy engines of each profile, from NVIDIA's MIG user guide.
_A100_SM = (14, 14, 28, 42, 56, 98)
_A100_CE = (1, 1, 2, 3, 4, 7)
_A100_80 = _seven((10, 20, 20, 40, 40, 80), (9856, 19968, 19968, 40192, 40192, 80384), _A100_SM, _A100_CE)
# Listed as 9.75, 19.62, 39.5 and 79.25 GiB.
_H100_80 = _seven(
    (10, 20, 20, 40, 40, 80),
    (9984, 20096, 20096, 40448, 40448, 81152),
    (16, 26, 32, 60, 64, 132),
    (1, 1, 2, 3, 4, 8),
    (1, 1, 2, 3, 4, 7),
)

_BOARDS = {
    # Listed as 5.81, 11.69 and 23.44 GiB.
    "A30": _four((6, 12, 24), (5952, 11968, 24000), (14, 28, 56)),
    "A100-40GB": _seven((5, 10, 10, 20, 20, 40), (4864, 9856, 9856, 19968, 19968, 40192), _A100_SM, _A100_CE),
    "A100-80GB": _A100_80,
    "A800-80GB": _A100_80,
    "H100-80GB": _H100_80,
    "H800": _H100_80,
    "H100-94GB": _seven((12, 24, 24, 47, 47, 94)),
    "H100-96GB": _seven((12, 24, 24, 48, 48, 96)),
    "GH200-96GB": _seven((12, 24, 24, 48, 48, 96)),
    "H200": _seven((18, 35, 35, 71, 71, 141)),
    "GH200-144GB": _seven((18, 36, 36, 72, 72, 144)),
    "B200": _seven(
        (23, 45, 45, 90, 90, 180),
        multiprocessors=(18, None, None, None, None, 148),
        copy_engines=(2, 2, 3, 6, 8, 16),
    ),
    "GB200": _seven((23, 47, 47, 93, 93, 186)),
    "B300": _seven((34, 67, 67, 135, 135, 269)),
    "GB300": _seven((35, 70, 70, 139, 139, 278)),
    "RTX-PRO-6000": _board(4, 4, _FOUR_UNNUMBERED, _FOUR_UNNUMBERED_MEDIA, (24, 48, 96), (UNKNOWN,) * 4),
}

BOARDS: Mapping[GpuModelName, MigGeometry] = {GpuModelName(name): board for name, board in _BOARDS.items()}
"""The geometry of each GPU model of ``gpu_catalogue`` that can be cut."""
