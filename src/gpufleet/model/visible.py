"""Text that shows what it holds: what would hide, move a cursor or turn the direction is written out.

Names and messages come from everything that may write to a cluster or hand us a file. A terminal acts on
escape sequences, a viewer lets characters of direction change the order of what is read, and others have no
width at all. All of these become the escapes by which programmers write them; everything else stays as it is.
"""

import json
import re

import msgspec

_HIDDEN_RANGES = (
    # Controls, and what a terminal takes for one.
    (0x00, 0x1F),
    (0x7F, 0x9F),
    # No width, or none of their own: soft hyphen, joiners, fillers, selectors of a form.
    (0xAD, 0xAD),
    (0x34F, 0x34F),
    (0x600, 0x605),
    (0x61C, 0x61C),
    (0x6DD, 0x6DD),
    (0x70F, 0x70F),
    (0x890, 0x891),
    (0x8E2, 0x8E2),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    # Zero width, marks and turns of direction, ends of lines and paragraphs, invisible operators.
    (0x200B, 0x200F),
    (0x2028, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    # Halves of a pair stand for nothing; no writer of UTF-8 takes them.
    (0xD800, 0xDFFF),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFB),
    (0x110BD, 0x110BD),
    (0x110CD, 0x110CD),
    (0x13430, 0x1343F),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)


def _pattern(kept: str) -> re.Pattern[str]:
    ranges = "".join(f"{re.escape(chr(low))}-{re.escape(chr(high))}" for low, high in _HIDDEN_RANGES)
    return re.compile(f"(?![{kept}])[{ranges}]" if kept else f"[{ranges}]")


# A line shows a line break as \n; a text keeps its own and its tabs.
_IN_A_LINE = _pattern("")
_IN_A_TEXT = _pattern("\n\t")


def visible_line(text: str) -> str:
    """The text as one line, in which nothing is hidden and every character is one that can be printed."""
    if text.isprintable() and not _IN_A_LINE.search(text):
        return text
    return "".join(
        one if one.isprintable() and not _IN_A_LINE.match(one) else ascii(one)[1:-1] for one in text
    )


def visible_text(text: str) -> str:
    """The text, in which nothing is hidden but ends of lines and tabulators."""
    return _IN_A_TEXT.sub(_written_out, text)


def visible_json(text: str) -> str:
    """A text of JSON of which every parser reads the same as before, and every viewer shows the same.

    Outside of its strings JSON has no such characters, so they are written as strings have them.
    """
    return _IN_A_TEXT.sub(_as_json, text)


def json_text(value: object, indent: int = 2) -> str:
    """A value as JSON in which nothing is hidden, on one line if ``indent`` is 0."""
    try:
        text = msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        # Half of a pair, as in the name of a file that is no UTF-8: only an escape can say it.
        separators = (",", ": ") if indent else (",", ":")
        plain = msgspec.to_builtins(value)
        return visible_json(json.dumps(plain, indent=indent or None, separators=separators))
    return visible_json(msgspec.json.format(text, indent=indent) if indent else text)


def _written_out(found: re.Match[str]) -> str:
    return ascii(found[0])[1:-1]


def _as_json(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
