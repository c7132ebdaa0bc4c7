"""Label selectors as Kubernetes writes them in a query: "app=web,tier in (a,b),!old".

Read into ``model.labels``; written back as the object of the API, which answers repeat.
"""

import re

from gpufleet.model.labels import LabelSelector, Operator, Requirement
from gpufleet.model.model_errors import InputError

CHARACTERS_MAX = 16_384
"""Far more than a person or an autoscaler sends; each term costs work for each series or line."""

EVERYTHING = LabelSelector()

_TOKEN = re.compile(r"\s*(==|!=|=|!|\(|\)|,|[^\s=!(),]+)")
_BEGINNING = "!, identifier, or 'end of string'"


class _Tokens:
    """The words and signs of a selector, one after the other."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._at = 0

    def look(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def take(self) -> str:
        token = self.look()
        self._at += 1
        return token

    def expect(self, wanted: str) -> None:
        if (found := self.take()) != wanted:
            raise _unexpected(found, f"'{wanted}'")


def read_selector(text: str) -> LabelSelector:
    """The selector; everything where the text is empty. Raises InputError in the words of the API server."""
    if len(text) > CHARACTERS_MAX:
        raise InputError(f"a selector of {len(text)} characters", expected=f"at most {CHARACTERS_MAX}")
    tokens = _Tokens(text)
    found: list[Requirement] = []
    while tokens.look():
        found.append(_term(tokens))
        if tokens.look():
            tokens.expect(",")
            if not tokens.look():
                raise _unexpected("", "identifier after ','")
    return LabelSelector(tuple(found))


def _term(tokens: _Tokens) -> Requirement:
    first = tokens.take()
    if first == "!":
        return Requirement(_name(tokens.take(), "identifier"), Operator.DOES_NOT_EXIST)
    key = _name(first, _BEGINNING)
    match tokens.look():
        case "" | ",":
            return Requirement(key, Operator.EXISTS)
        case "=" | "==":
            tokens.take()
            return Requirement(key, Operator.IN, (_value(tokens),))
        case "!=":
            tokens.take()
            return Requirement(key, Operator.NOT_IN, (_value(tokens),))
        case "in":
            tokens.take()
            return Requirement(key, Operator.IN, _values(tokens))
        case "notin":
            tokens.take()
            return Requirement(key, Operator.NOT_IN, _values(tokens))
        case other:
            raise _unexpected(other, "in, notin, =, ==, !=")


def _name(token: str, expected: str) -> str:
    if not token or token in {"=", "==", "!=", "!", "(", ")", ","}:
        raise _unexpected(token, expected)
    return token


def _value(tokens: _Tokens) -> str:
    # "key=" asks for the empty value.
    return "" if tokens.look() in {"", ","} else _name(tokens.take(), "identifier")


def _values(tokens: _Tokens) -> tuple[str, ...]:
    tokens.expect("(")
    found: list[str] = []
    while True:
        found.append("" if tokens.look() in {",", ")"} else _name(tokens.take(), "identifier"))
        sign = tokens.take()
        if sign == ")":
            return tuple(found)
        if sign != ",":
            raise _unexpected(sign, "',' or ')'")


def _unexpected(found: str, expected: str) -> InputError:
    return InputError(f"found '{found}', expected: {expected}")


def selector_document(selector: LabelSelector) -> dict[str, object] | None:
    """The selector as a LabelSelector of the API; None for everything."""
    labels: dict[str, str] = {}
    expressions: list[dict[str, object]] = []
    for one in selector.requirements:
        if one.operator is Operator.IN and len(one.values) == 1 and one.key not in labels:
            labels[one.key] = one.values[0]
        else:
            listed = {"values": list(one.values)} if one.values else {}
            expressions.append({"key": one.key, "operator": one.operator.value, **listed})
    document: dict[str, object] = {}
    if labels:
        document["matchLabels"] = labels
    if expressions:
        document["matchExpressions"] = expressions
    return document or None


def selector_text(selector: LabelSelector) -> str:
    """The selector as the API server writes it in messages: sorted by key."""
    return ",".join(_text_of(one) for one in sorted(selector.requirements, key=lambda one: one.key))


def _text_of(one: Requirement) -> str:
    match one.operator:
        case Operator.EXISTS:
            return one.key
        case Operator.DOES_NOT_EXIST:
            return f"!{one.key}"
        case Operator.IN if len(one.values) == 1:
            return f"{one.key}={one.values[0]}"
        case Operator.NOT_IN if len(one.values) == 1:
            return f"{one.key}!={one.values[0]}"
        case Operator.IN:
            return f"{one.key} in ({','.join(one.values)})"
        case _:
            return f"{one.key} notin ({','.join(one.values)})"
