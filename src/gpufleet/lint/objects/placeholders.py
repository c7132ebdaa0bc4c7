"""Texts that stand for a value which a person or a program puts in before the manifest is applied.

Published manifests are often filled in by a shell, by envsubst or by a reader. Such a text tells nothing of
the value, so rules neither judge it nor take it for one.
"""

import re

WHOLE = re.compile(r"\$\(.*\)|\$\{?\w+\}?|\{\{.*\}\}|<.*>|__[A-Z0-9_]+__")
PART = re.compile(r"[<>{}$]")


def is_placeholder(text: str) -> bool:
    """Whether the whole text is one.

    They are written ``$NAME``, ``${NAME}``, ``$(NAME)``, ``{{ name }}``, ``<name>`` and ``__NAME__``.
    """
    return WHOLE.fullmatch(text) is not None


def has_placeholder(text: str) -> bool:
    """Whether a part of the text, which holds no such sign by itself, is one."""
    return PART.search(text) is not None
