"""Fixes applied to a text, each proven to change what it names and nothing else.

The proof reads the mended text back: its values must be those of the old text with the edits made on
them. A fix that fails it, or that meets another one, is not applied; the caller lints again, and what
is still wrong then gets its turn.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from gpufleet.lint.edits.edits import Append, Edit, Fix, Insert, Remove, Rename, Replace
from gpufleet.lint.edits.layout import Layout, Splice, TooUnusualError
from gpufleet.lint.source.nodes import Data, data_of
from gpufleet.lint.source.parse import Parsed, parse
from gpufleet.lint.source.text import SourceText


@dataclass(frozen=True)
class DocumentFix:
    """A fix, and the number of the document of the text that it mends."""

    document: int
    fix: Fix


@dataclass(frozen=True)
class FixedText:
    """The text after the fixes that could be applied."""

    text: str
    applied: tuple[DocumentFix, ...] = ()


class _DroppedType:
    """Stands where a value was removed until all edits are made."""


_DROPPED = _DroppedType()


@dataclass
class _Accepted:
    fixes: list[DocumentFix] = field(default_factory=list)
    splices: list[Splice] = field(default_factory=list)

    def add(self, one: DocumentFix, splices: list[Splice]) -> None:
        """Take the fix unless it meets one that was taken before."""
        if not any(_meet(splice, other) for splice in splices for other in self.splices):
            self.fixes.append(one)
            self.splices += splices


def apply_fixes(source: SourceText, parsed: Parsed, fixes: Sequence[DocumentFix]) -> FixedText:
    """The text with as many of the fixes as can be applied together."""
    layout = Layout(source)
    accepted = _Accepted()
    for one in fixes:
        try:
            splices = [layout.splice(edit) for edit in one.fix.edits]
        except TooUnusualError:
            continue
        if splices and not any(parsed.is_repeated(splice.start) for splice in splices):
            accepted.add(one, splices)
    if not accepted.fixes:
        return FixedText(source.text)
    text = _spliced(source.text, accepted.splices)
    # Together they may change more than each promised; then each is tried by itself.
    if _changes_only(source, parsed, text, accepted.fixes):
        return FixedText(text, tuple(accepted.fixes))
    return _one_by_one(source, parsed, layout, accepted.fixes)


def _one_by_one(source: SourceText, parsed: Parsed, layout: Layout, fixes: list[DocumentFix]) -> FixedText:
    """The text with each fix that can be applied beside those before it.

    With the first alone, two rules that undo each other would keep the others waiting for ever.
    """
    found = FixedText(source.text)
    splices: list[Splice] = []
    for one in fixes:
        wanted = [*splices, *(layout.splice(edit) for edit in one.fix.edits)]
        text = _spliced(source.text, wanted)
        if _changes_only(source, parsed, text, [*found.applied, one]):
            found, splices = FixedText(text, (*found.applied, one)), wanted
    return found


def _meet(one: Splice, other: Splice) -> bool:
    if one.start == other.start:
        return True
    return one.start < other.end and other.start < one.end


def _spliced(text: str, splices: list[Splice]) -> str:
    parts, done = [], 0
    for splice in sorted(splices, key=lambda one: (one.start, -one.indent)):
        parts += [text[done : splice.start], splice.text]
        done = max(done, splice.end)
    return "".join((*parts, text[done:]))


def _changes_only(source: SourceText, parsed: Parsed, text: str, fixes: list[DocumentFix]) -> bool:
    after = parse(SourceText(source.name, text))
    if len(after.documents) != len(parsed.documents) or len(after.problems) != len(parsed.problems):
        return False
    wanted: list[Data] = [data_of(document) for document in parsed.documents]
    for one in fixes:
        for edit in one.fix.edits:
            wanted[one.document] = _edited(wanted[one.document], edit)
    return [_swept(document) for document in wanted] == [data_of(document) for document in after.documents]


def _edited(document: Data, edit: Edit) -> Data:
    match edit:
        case Replace(at, value):
            _put(document, at.keys, value)
        case Remove(at):
            _put(document, at.keys, _DROPPED)
        case Rename(at, name):
            mapping = _reached(document, at.keys[:-1])
            if isinstance(mapping, dict):
                mapping[name] = mapping.pop(str(at.keys[-1]))
        case Insert(at, name, value):
            _put(document, (*at.keys, name), value)
        case Append(at, value):
            found = _reached(document, at.keys)
            if isinstance(found, list):
                found.append(value)
            else:
                _put(document, at.keys, [value])
    return document


def _reached(document: Data, keys: tuple[str | int, ...]) -> Data:
    found = document
    for key in keys:
        if isinstance(found, dict):
            found = found.get(str(key))
        elif isinstance(found, list) and isinstance(key, int):
            found = found[key]
        else:
            return None
    return found


def _put(document: Data, keys: tuple[str | int, ...], value: object) -> None:
    *way, last = keys
    found: object = document
    for key, then in zip(way, keys[1:], strict=True):
        below = found.get(key) if isinstance(found, dict) else found[key]  # type: ignore[index]
        if below is None:
            below = [] if isinstance(then, int) else {}
            found[key] = below  # type: ignore[index]
        found = below
    found[last] = value  # type: ignore[index]


def _swept(value: object) -> object:
    if isinstance(value, dict):
        return {name: _swept(one) for name, one in value.items() if not isinstance(one, _DroppedType)}
    if isinstance(value, list):
        return [_swept(one) for one in value if not isinstance(one, _DroppedType)]
    return value
