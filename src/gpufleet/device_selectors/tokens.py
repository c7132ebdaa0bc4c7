"""A text cut into tokens, with their places. ``parsing`` reads them.

Grammar: the language definition of CEL, section "Syntax".
"""

import re
from dataclasses import dataclass
from typing import Any

from gpufleet.device_selectors.cel_errors import ExpressionError
from gpufleet.device_selectors.values import INT_MAXIMUM, UINT_MAXIMUM, Uint

RESERVED = frozenset(
    (
        *("as", "break", "const", "continue", "else", "for", "function", "if", "import"),
        *("let", "loop", "package", "namespace", "return", "var", "void", "while"),
    )
)
"""Words that may not name a variable; they may name a field."""

_TOKEN = re.compile(
    r"""
    (?P<space>[\s]+|//[^\n]*)
  | (?P<string>(?:[rR][bB]?|[bB][rR]?)?(?:\"\"\"|'''|"|'))
  | (?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)
  | (?P<int>0[xX][0-9a-fA-F]+[uU]?|\d+[uU]?)
  | (?P<quoted>`[A-Za-z0-9_.\-/ ]+`)
  | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<sign>==|!=|<=|>=|&&|\|\||[-+*/%<>!?:.,()\[\]{}])
    """,
    re.VERBOSE,
)
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\?\"'`])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2}))"
)
_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SURROGATES = range(0xD800, 0xE000)
_CODE_POINT_MAXIMUM = 0x10FFFF
"""The last character of Unicode."""


@dataclass(frozen=True, slots=True)
class Token:
    """A word, sign or constant. ``kind`` is "end" after the last one."""

    kind: str
    text: str
    value: Any
    offset: int


def tokens(text: str) -> list[Token]:
    """All tokens of a text and one of kind "end". Raises ExpressionError."""
    found: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ExpressionError(f"Syntax error: token recognition error at: {text[at : at + 10]!r}", at)
        kind, word = str(match.lastgroup), match.group()
        end = match.end()
        if kind == "string":
            value, end = _string(text, at, word)
            found.append(Token("literal", text[at:end], value, at))
        elif kind in {"int", "float"}:
            found.append(Token("literal", word, _number(word, kind, at), at))
        elif kind == "quoted":
            found.append(Token("quoted", word[1:-1], None, at))
        elif kind != "space":
            found.append(Token(kind, word, None, at))
        at = end
    found.append(Token("end", "<EOF>", None, len(text)))
    return found


def _number(word: str, kind: str, at: int) -> int | float:
    if kind == "float":
        return float(word)
    is_unsigned = word[-1] in "uU"
    digits = word[:-1] if is_unsigned else word
    number = int(digits, 16) if digits[:2] in {"0x", "0X"} else int(digits)
    if is_unsigned:
        if number > UINT_MAXIMUM:
            raise ExpressionError(f"invalid uint literal: {word}", at)
        return Uint(number)
    # One more than the largest: a minus before it makes it the smallest.
    if number > INT_MAXIMUM + 1:
        raise ExpressionError(f"invalid int literal: {word}", at)
    return number


def _string(text: str, at: int, opening: str) -> tuple[str | bytes, int]:
    prefix = opening.rstrip("\"'").lower()
    quote = opening[len(prefix) :]
    is_raw, begin = "r" in prefix, at + len(opening)
    end = begin
    while not text.startswith(quote, end):
        if end >= len(text) or (len(quote) == 1 and text[end] in "\r\n"):
            raise ExpressionError("Syntax error: a string is not closed", at)
        end += 2 if text[end] == "\\" and not is_raw else 1
    body = text[begin:end]
    if is_raw:
        plain = body
    elif "b" in prefix:
        return _unescaped_bytes(body, at), end + len(quote)
    else:
        plain = _unescaped(body, at)
    return (plain.encode() if "b" in prefix else plain), end + len(quote)


def _pieces(body: str, at: int) -> list[tuple[str, re.Match[str] | None]]:
    """Plain text and escapes by turns."""
    found: list[tuple[str, re.Match[str] | None]] = []
    begin = 0
    while (slash := body.find("\\", begin)) >= 0:
        match = _ESCAPE.match(body, slash)
        if match is None:
            raise ExpressionError(f"Syntax error: unknown escape {body[slash : slash + 2]!r} in a string", at)
        found.append((body[begin:slash], match))
        begin = match.end()
    return [*found, (body[begin:], None)]


def _code(match: re.Match[str]) -> int:
    _, two, four, eight, octal = match.groups()
    return int(octal, 8) if octal else int(two or four or eight, 16)


def _unescaped(body: str, at: int) -> str:
    parts = []
    for plain, match in _pieces(body, at):
        parts.append(plain)
        if match is None:
            continue
        if simple := match.group(1):
            parts.append(_SIMPLE.get(simple, simple))
            continue
        code = _code(match)
        if code in _SURROGATES or code > _CODE_POINT_MAXIMUM:
            raise ExpressionError(f"Syntax error: {match.group()} is no character", at)
        parts.append(chr(code))
    return "".join(parts)


def _unescaped_bytes(body: str, at: int) -> bytes:
    parts = []
    for plain, match in _pieces(body, at):
        parts.append(plain.encode())
        if match is None:
            continue
        if simple := match.group(1):
            parts.append(_SIMPLE.get(simple, simple).encode())
        elif match.group(3) or match.group(4):
            raise ExpressionError(f"Syntax error: {match.group()} may not stand in bytes", at)
        else:
            parts.append(bytes([_code(match)]))
    return b"".join(parts)
