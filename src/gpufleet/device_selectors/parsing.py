"""A text becomes a tree of expressions: recursive descent over the tokens, macros opened on the way.

Grammar: the language definition of CEL, section "Syntax". ``checking`` does the next step.
"""

from gpufleet.device_selectors.cel_errors import ExpressionError
from gpufleet.device_selectors.expressions import (
    AND,
    CONDITIONAL,
    INDEX,
    NEGATE,
    NOT,
    OPTIONAL_INDEX,
    OPTIONAL_SELECT,
    OR,
    Call,
    Comprehension,
    Expression,
    ListLiteral,
    Literal,
    MapEntry,
    MapLiteral,
    Message,
    Name,
    Select,
)
from gpufleet.device_selectors.macros import MACROS
from gpufleet.device_selectors.tokens import RESERVED, Token, tokens
from gpufleet.device_selectors.values import INT_MAXIMUM, INT_MINIMUM

LENGTH_MAX = 10 * 1024
"""Bytes of a selector that the API server takes (CELSelectorExpressionMaxLength)."""

DEPTH_MAX = 60
"""Keeps the recursion here within Python's; Kubernetes goes to 250, and no published selector to 10."""

_RELATIONS = frozenset(("<", "<=", ">", ">=", "==", "!=", "in"))
_CONSTANTS = {"true": True, "false": False, "null": None}


def parsed(text: str) -> Expression:
    """The expression of a text. Raises ExpressionError with the place of what is wrong."""
    size = len(text.encode())
    if size > LENGTH_MAX:
        raise ExpressionError(f"an expression has at most {LENGTH_MAX} bytes, and this one has {size}")
    found = _Parser(text).whole()
    _check_depth(found)
    return found


def _check_depth(whole: Expression) -> None:
    """Refuse a tree that the steps of an evaluation could not walk. Raises ExpressionError."""
    # By a list and not by recursion: the tree may be deeper than Python can go.
    left = [(whole, 1)]
    while left:
        one, depth = left.pop()
        if depth > DEPTH_MAX:
            raise _too_deep(one.offset)
        left.extend((each, depth + 1) for each in _parts(one))


def _too_deep(offset: int) -> ExpressionError:
    return ExpressionError(f"an expression is nested at most {DEPTH_MAX} deep", offset)


def _parts(one: Expression) -> list[Expression]:
    match one:
        case Select():
            return [one.operand]
        case Call():
            return [*one.arguments, *([one.target] if one.target is not None else [])]
        case ListLiteral():
            return [*one.elements]
        case MapLiteral():
            return [each for entry in one.entries for each in (entry.key, entry.value)]
        case Comprehension():
            return [one.elements, one.start, one.condition, one.step, one.result]
    return []


class _Parser:
    """Reads tokens from left to right, one function for each level of the grammar."""

    def __init__(self, text: str) -> None:
        self._tokens = tokens(text)
        self._at = 0
        self._depth = 0

    def whole(self) -> Expression:
        found = self._expression()
        if self._next.kind != "end":
            raise self._unexpected()
        return found

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _is(self, sign: str) -> bool:
        return self._next.kind in {"sign", "word"} and self._next.text == sign

    def _took(self, sign: str) -> bool:
        if not self._is(sign):
            return False
        self._at += 1
        return True

    def _take(self, sign: str) -> None:
        if not self._took(sign):
            raise self._unexpected(f", expecting '{sign}'")

    def _unexpected(self, more: str = "") -> ExpressionError:
        token = self._next
        return ExpressionError(f"Syntax error: mismatched input '{token.text}'{more}", token.offset)

    def _expression(self) -> Expression:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise _too_deep(self._next.offset)
        found = self._or()
        offset = self._next.offset
        if self._took("?"):
            yes = self._or()
            self._take(":")
            found = Call(CONDITIONAL, (found, yes, self._expression()), offset)
        self._depth -= 1
        return found

    def _or(self) -> Expression:
        terms, offset = [self._and()], self._next.offset
        while self._took("||"):
            terms.append(self._and())
        return terms[0] if len(terms) == 1 else Call(OR, tuple(terms), offset)

    def _and(self) -> Expression:
        terms, offset = [self._relation()], self._next.offset
        while self._took("&&"):
            terms.append(self._relation())
        return terms[0] if len(terms) == 1 else Call(AND, tuple(terms), offset)

    def _relation(self) -> Expression:
        found = self._sum()
        while self._next.kind in {"sign", "word"} and self._next.text in _RELATIONS:
            token = self._next
            self._at += 1
            name = "@in" if token.text == "in" else f"_{token.text}_"
            found = Call(name, (found, self._sum()), token.offset)
        return found

    def _sum(self) -> Expression:
        found = self._product()
        while self._is("+") or self._is("-"):
            token = self._next
            self._at += 1
            found = Call(f"_{token.text}_", (found, self._product()), token.offset)
        return found

    def _product(self) -> Expression:
        found = self._unary()
        while self._is("*") or self._is("/") or self._is("%"):
            token = self._next
            self._at += 1
            found = Call(f"_{token.text}_", (found, self._unary()), token.offset)
        return found

    def _unary(self) -> Expression:
        token = self._next
        if self._is("!"):
            count = 0
            while self._took("!"):
                count += 1
            found = self._member()
            # As cel-go reads it: an even number of signs is none.
            return found if count % 2 == 0 else Call(NOT, (found,), token.offset)
        if self._is("-") and not self._is_negative_number():
            count = 0
            while self._took("-"):
                count += 1
            found = self._member()
            return found if count % 2 == 0 else Call(NEGATE, (found,), token.offset)
        return self._member()

    def _is_negative_number(self) -> bool:
        """One minus before a number belongs to the number."""
        following = self._tokens[self._at + 1]
        return following.kind == "literal" and type(following.value) in {int, float}

    def _member(self) -> Expression:
        found = self._primary()
        while True:
            offset = self._next.offset
            if self._took("."):
                found = self._after_dot(found, offset)
            elif self._took("["):
                name = OPTIONAL_INDEX if self._took("?") else INDEX
                found = Call(name, (found, self._expression()), offset)
                self._take("]")
            else:
                return found

    def _after_dot(self, operand: Expression, offset: int) -> Expression:
        is_optional = self._took("?")
        token = self._next
        if token.kind not in {"word", "quoted"}:
            raise self._unexpected(", expecting an identifier")
        self._at += 1
        if is_optional:
            return Call(OPTIONAL_SELECT, (operand, Literal(token.text, token.offset)), offset)
        if token.kind == "word" and self._took("("):
            return self._called(token.text, operand, self._arguments(")"), offset)
        if token.kind == "word" and token.text in {"in", *_CONSTANTS}:
            raise ExpressionError(f"Syntax error: mismatched input '{token.text}'", token.offset)
        return Select(operand, token.text, offset)

    def _arguments(self, closing: str) -> tuple[Expression, ...]:
        found: list[Expression] = []
        while not self._is(closing):
            found.append(self._expression())
            if not self._took(","):
                break
        self._take(closing)
        return tuple(found)

    @staticmethod
    def _called(
        name: str, target: Expression | None, arguments: tuple[Expression, ...], offset: int
    ) -> Expression:
        for macro in MACROS.get((name, len(arguments), target is not None), ()):
            opened = macro(target, arguments, offset)
            if opened is not None:
                return opened
        return Call(name, arguments, offset, target)

    def _primary(self) -> Expression:
        token = self._next
        if token.kind == "literal":
            self._at += 1
            if type(token.value) is int and token.value > INT_MAXIMUM:
                raise ExpressionError(f"invalid int literal: {token.text}", token.offset)
            return Literal(token.value, token.offset)
        if self._took("-"):
            number = self._next.value
            self._at += 1
            return Literal(max(-number, INT_MINIMUM) if type(number) is int else -number, token.offset)
        if self._took("("):
            found = self._expression()
            self._take(")")
            return found
        if self._took("["):
            return self._list(token.offset)
        if self._took("{"):
            return self._map(token.offset)
        return self._named()

    def _named(self) -> Expression:
        offset = self._next.offset
        is_rooted = self._took(".")
        token = self._next
        if token.kind != "word":
            raise self._unexpected()
        self._at += 1
        if token.text in _CONSTANTS and not is_rooted:
            return Literal(_CONSTANTS[token.text], token.offset)
        if token.text in RESERVED or token.text == "in":
            raise ExpressionError(f"Syntax error: reserved identifier: {token.text}", token.offset)
        if self._took("("):
            return self._called(token.text, None, self._arguments(")"), offset)
        message = self._message(token.text, offset)
        return message or Name(("." if is_rooted else "") + token.text, offset)

    def _message(self, name: str, offset: int) -> Message | None:
        """``a.b{`` makes a value of a type; the tokens are taken only then."""
        at = self._at
        while self._tokens[at].text == "." and self._tokens[at + 1].kind == "word":
            name = f"{name}.{self._tokens[at + 1].text}"
            at += 2
        if self._tokens[at].text != "{" or self._tokens[at].kind != "sign":
            return None
        self._at = at + 1
        # The fields are passed over: no selector may make a value of a type, and ``checking`` says so.
        depth = 1
        while depth:
            if self._next.kind == "end":
                raise self._unexpected()
            depth += {"{": 1, "}": -1}.get(self._next.text, 0) if self._next.kind == "sign" else 0
            self._at += 1
        return Message(name, offset)

    def _list(self, offset: int) -> ListLiteral:
        elements: list[Expression] = []
        optional = set()
        while not self._is("]"):
            if self._took("?"):
                optional.add(len(elements))
            elements.append(self._expression())
            if not self._took(","):
                break
        self._take("]")
        return ListLiteral(tuple(elements), frozenset(optional), offset)

    def _map(self, offset: int) -> MapLiteral:
        entries = []
        while not self._is("}"):
            is_optional = self._took("?")
            key = self._expression()
            self._take(":")
            entries.append(MapEntry(key, self._expression(), is_optional))
            if not self._took(","):
                break
        self._take("}")
        return MapLiteral(tuple(entries), offset)
