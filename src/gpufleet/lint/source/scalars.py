"""What an unquoted word of YAML means to Kubernetes, with a reader that follows YAML 1.1 in the main."""

import re

Plain = None | bool | int | float | str

# As YAML 1.1 reads plain words, which is what Kubernetes' parser does.
NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})
_FALSE = frozenset({"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"})
# Only a text that begins so is tried as a number.
_BEFORE_NUMBERS = frozenset("+-.0123456789")
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9]{0,30})")
_OTHER_BASE = re.compile(r"([-+]?)(0x[0-9a-fA-F]{1,16}|0o?[0-7]{1,22}|0b[01]{1,64})")
_FLOAT = re.compile(r"[-+]?(\.[0-9]{1,30}|[0-9]{1,30}(\.[0-9]{0,30})?)([eE][-+]?[0-9]{1,3})?")
_NOT_A_NUMBER = {".nan": "nan", ".inf": "inf", "+.inf": "inf", "-.inf": "-inf"}


def plain_value(text: str) -> Plain:
    """The value of an unquoted word."""
    if text in NULL:
        return None
    if text[0] in _BEFORE_NUMBERS:
        return _number(text)
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    return text


def _number(text: str) -> Plain:
    if _DECIMAL.fullmatch(text):
        return int(text)
    if other := _OTHER_BASE.fullmatch(text):
        sign, digits = other.groups()
        base = {"x": 16, "o": 8, "b": 2}.get(digits[1:2], 8)
        magnitude = int(digits.lower().lstrip("0").lstrip("xob") or "0", base)
        return -magnitude if sign == "-" else magnitude
    if _FLOAT.fullmatch(text):
        return float(text)
    special = _NOT_A_NUMBER.get(text.lower())
    return text if special is None else float(special)
