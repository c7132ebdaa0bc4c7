"""New values as YAML or JSON text, in the manner of what stands around them."""

import json
import re

from gpufleet.lint.source.nodes import Data
from gpufleet.lint.source.scalars import Plain, plain_value

_SAFE_WORD = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./=@+-]*")
_SAFE_COLON = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./=@+:-]*[A-Za-z0-9_./=@+-]")


def scalar(value: Plain) -> str:
    """A single value, quoted only where it must be."""
    if isinstance(value, str):
        is_safe = _SAFE_WORD.fullmatch(value) or _SAFE_COLON.fullmatch(value)
        # A word that looks like a number or a truth value is text only in quotes.
        return value if is_safe and plain_value(value) == value else json.dumps(value, ensure_ascii=False)
    return json.dumps(value)


def flow(value: Data) -> str:
    """A value on one line, with braces and brackets."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{scalar(name)}: {flow(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    text = scalar(value)
    # A plain word with a colon would need care within braces.
    return json.dumps(value) if ":" in text and text[0] != '"' else text


def block_entry(name: str, value: Data) -> list[str]:
    """A field on lines of its own, the first without indentation."""
    if isinstance(value, dict | list) and value:
        return [f"{scalar(name)}:", *(f"  {line}" for line in block(value))]
    return [f"{scalar(name)}: {flow(value)}"]


def block_item(value: Data) -> list[str]:
    """An item of a list on lines of its own, the first without indentation."""
    first, *others = block(value)
    return [f"- {first}", *(f"  {line}" for line in others)]


def block(value: Data) -> list[str]:
    """A value on lines of its own."""
    if isinstance(value, dict) and value:
        return [line for name, one in value.items() for line in block_entry(name, one)]
    if isinstance(value, list) and value:
        return [line for one in value for line in block_item(one)]
    return [flow(value)]
