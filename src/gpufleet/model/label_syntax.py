"""The syntax of label keys and values, which taints share with labels.

Checked when a value is made, so that what was taken in need not be doubted again; the rules
are those of the API server. ``labels`` and ``taint`` build on it.
"""

import functools
import re

from gpufleet.model.model_errors import InputError

_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
# The API server refuses longer names.
_NAME_LENGTH = 63
_SUBDOMAIN_LENGTH = 253
"""Both limits are those of the API server, from DNS."""

KEY_EXPECTED = (
    "a name of up to 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or"
    " digit, perhaps after a DNS name and a slash, as in nvidia.com/gpu.product"
)
VALUE_EXPECTED = (
    "up to 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit, or nothing"
)


@functools.lru_cache(maxsize=4096)
def is_label_key(text: str) -> bool:
    """True for a qualified name: ``name`` or ``dns.prefix/name``."""
    prefix, slash, name = text.rpartition("/")
    if slash and not is_subdomain(prefix):
        return False
    return len(name) <= _NAME_LENGTH and _NAME.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    """True for what a label may hold; the empty text is a value."""
    return not text or (len(text) <= _NAME_LENGTH and _NAME.fullmatch(text) is not None)


def is_subdomain(text: str) -> bool:
    """True for a DNS-1123 subdomain, which every node's name is."""
    return len(text) <= _SUBDOMAIN_LENGTH and _SUBDOMAIN.fullmatch(text) is not None


def check_label_key(text: str, field: str = "key") -> None:
    """Raises InputError unless the text is a label key."""
    if not is_label_key(text):
        raise InputError("not a label key", field=field, value=text, expected=KEY_EXPECTED)


def check_label_value(text: str, field: str = "value") -> None:
    """Raises InputError unless the text is a label value."""
    if not is_label_value(text):
        raise InputError("not a label value", field=field, value=text, expected=VALUE_EXPECTED)
