"""Values as a board writes them: each unit with the digits that a person reads.

``board_drawing`` puts them beside axes, into tiles and into tables.
"""

from gpufleet.dashboards.board import Colour, Meaning, Threshold, Unit

LARGE = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
BINARY = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"))
TIMES = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"))
SUFFIX = {
    Unit.WATTS: " W",
    Unit.CELSIUS: " °C",
    Unit.KILOWATT_HOURS: " kWh",
    Unit.PER_SECOND: "/s",
    Unit.HOURS: " h",
}


def digits(value: float) -> str:
    """Three digits that count, without zeros at the end."""
    if value == 0:
        return "0"
    places = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 0.1 else 3
    text = f"{value:.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _scaled(value: float, scales: tuple[tuple[float, str], ...]) -> str | None:
    for size, name in scales:
        if abs(value) >= size:
            return f"{digits(value / size)} {name}"
    return None


def written(value: float, unit: Unit) -> str:
    """A value with its unit."""
    match unit:
        case Unit.RATIO:
            return f"{digits(value * 100)} %"
        case Unit.SECONDS:
            small = f"{digits(value * 1000)} ms" if 0 < abs(value) < 1 else f"{digits(value)} s"
            return _scaled(value, TIMES) or small
        case Unit.BYTES:
            return _scaled(value, BINARY) or f"{digits(value)} B"
        case _:
            plain = _scaled(value, LARGE) or digits(value)
            return plain + SUFFIX.get(unit, "").lstrip(" " if value and abs(value) >= LARGE[-1][0] else "")


def colour_of(
    value: float, below: Colour, thresholds: tuple[Threshold, ...], meanings: tuple[Meaning, ...] = ()
) -> Colour:
    """The colour that a value has by its meaning, else by the last threshold that it reaches."""
    for meaning in meanings:
        if meaning.value == value:
            return meaning.colour
    found = below
    for one in thresholds:
        if value >= one.value:
            found = one.colour
    return found
