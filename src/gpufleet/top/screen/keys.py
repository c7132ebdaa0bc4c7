"""Keys from the bytes that a terminal sends.

A key that is no character comes as an escape sequence; one that is not known is dropped as a whole, so that
its letters are not taken for keys. ``gpufleet.top.screen.choice`` says what keys do.
"""

import codecs
import re

ESCAPE = "escape"
UP, DOWN, PAGE_UP, PAGE_DOWN, HOME, END = "up", "down", "page up", "page down", "home", "end"
LEFT, RIGHT, DELETE = "left", "right", "delete"
ENTER, BACKSPACE, TAB, BACK_TAB = "enter", "backspace", "tab", "back tab"
INTERRUPT, REFRESH, WIDE, F10 = "ctrl-c", "ctrl-r", "ctrl-w", "f10"

_SEQUENCES = {
    "[A": UP,
    "[B": DOWN,
    "[C": RIGHT,
    "[D": LEFT,
    "[H": HOME,
    "[F": END,
    "[Z": BACK_TAB,
    "OA": UP,
    "OB": DOWN,
    "OC": RIGHT,
    "OD": LEFT,
    "OH": HOME,
    "OF": END,
    "[1~": HOME,
    "[7~": HOME,
    "[4~": END,
    "[8~": END,
    "[3~": DELETE,
    "[5~": PAGE_UP,
    "[6~": PAGE_DOWN,
    "[21~": F10,
}
_CONTROLS = {
    "\r": ENTER,
    "\n": ENTER,
    "\t": TAB,
    "\x7f": BACKSPACE,
    "\x08": BACKSPACE,
    "\x03": INTERRUPT,
    "\x12": REFRESH,
    "\x17": WIDE,
    "\x06": PAGE_DOWN,
    "\x02": PAGE_UP,
}
# Control sequences and the two-letter ones of old function keys (ECMA-48).
_WHOLE = re.compile(r"\[[0-?]*[ -/]*[@-~]|O[ -~]")
_BEGUN = re.compile(r"\[[0-?]*[ -/]*|O|")
SEQUENCE_MAX = 32
"""Longer ones are no keys; what a terminal answers to a program may be of any length."""


class KeyReader:
    """Makes keys of bytes, whatever pieces they come in."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        self._rest = ""

    @property
    def waits(self) -> bool:
        """Whether an escape sequence has begun: if no more comes, it is the key Escape."""
        return bool(self._rest)

    def read(self, data: bytes) -> list[str]:
        """The keys that are whole now."""
        self._rest += self._decoder.decode(data)
        found = []
        while self._rest:
            key, length = self._first()
            if not length:
                break
            self._rest = self._rest[length:]
            if key:
                found.append(key)
        return found

    def end(self) -> list[str]:
        """No more bytes came for a moment: an escape that stands alone is a key."""
        was, self._rest = self._rest, ""
        return [ESCAPE] if was == "\x1b" else []

    def _first(self) -> tuple[str, int]:
        """The first key, "" for one that means nothing, and its length; 0 while it is not whole."""
        text = self._rest
        if text[0] != "\x1b":
            key = _CONTROLS.get(text[0], text[0])
            return (key if key.isprintable() else ""), 1
        # The second one begins a sequence of its own.
        if text[1:2] == "\x1b":
            return ESCAPE, 1
        whole = _WHOLE.match(text, 1)
        if whole is not None:
            return _SEQUENCES.get(whole[0], ""), whole.end()
        if _BEGUN.fullmatch(text, 1) is not None and len(text) < SEQUENCE_MAX:
            return "", 0
        # Escape and a character is the character with Alt, which means nothing here.
        return "", 2
