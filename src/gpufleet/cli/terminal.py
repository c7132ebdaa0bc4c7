"""What every command that tells people something has in common: width and colour."""

import os
import sys

WIDTH_FALLBACK = 100
"""Where the terminal does not tell its width, as in a pipe."""

WIDTH_LEAST = 40
"""Narrower columns would hold a word a line."""

WIDTH_MOST = 120
"""Longer lines are hard to read, however wide the terminal."""


def with_color(chosen: str) -> bool:
    """Whether to use colour, by the flag, the usual variables, and whether the output is a terminal."""
    if chosen != "auto":
        return chosen == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()
