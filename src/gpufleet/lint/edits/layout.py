"""Which characters of a text an edit changes, so that comments, quotes and indentation stay.

``applying`` applies the splices and proves on the values read back that nothing else changed; what is
written too unusually to be edited in place is refused here and left to its owner.
"""

import json
from dataclasses import dataclass

from gpufleet.lint.edits import rendering
from gpufleet.lint.edits.edits import Append, Edit, Insert, Remove, Rename, Replace
from gpufleet.lint.source.fields import Field
from gpufleet.lint.source.nodes import Data, Mapping, Node, Scalar, Sequence, Style, content_end
from gpufleet.lint.source.text import SourceText


class TooUnusualError(Exception):
    """The text is written in a way that this edit does not handle."""


@dataclass(frozen=True)
class Splice:
    """Characters from start to end that are replaced by a text.

    ``indent`` is that of new lines: of several at one place, the deepest belong first.
    """

    start: int
    end: int
    text: str
    indent: int = 0


class Layout:
    """Splices for edits of one text."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.text = source.text

    def splice(self, edit: Edit) -> Splice:
        """The characters that the edit changes. Raises TooUnusualError."""
        match edit:
            case Replace(field, value):
                return self._replace(field, value)
            case Rename(field, name):
                return self._rename(field, name)
            case Remove(field):
                return self._remove(field)
            case Insert(mapping, name, value):
                return self._insert(mapping, name, value)
            case Append(sequence, value):
                return self._append(sequence, value)

    def _replace(self, field: Field, value: Data) -> Splice:
        node = field.node
        if not isinstance(node, Scalar) or isinstance(value, dict | list):
            raise TooUnusualError
        if node.start == node.end or node.style is Style.BLOCK or self.text[node.start] == "&":
            raise TooUnusualError
        quote = self.text[node.start]
        if quote == "'" and isinstance(value, str):
            return Splice(node.start, node.end, "'" + value.replace("'", "''") + "'")
        if quote == '"' and isinstance(value, str):
            return Splice(node.start, node.end, json.dumps(value, ensure_ascii=False))
        written = rendering.scalar(value) if quote != '"' else json.dumps(value)
        return Splice(node.start, node.end, written)

    def _rename(self, field: Field, name: str) -> Splice:
        key = field.key_node
        if key is None:
            raise TooUnusualError
        return self._replace(Field(key), name)

    def _remove(self, field: Field) -> Splice:
        parent = field.parent.node if field.parent is not None else None
        node = field.node
        if node is None:
            raise TooUnusualError
        if isinstance(parent, Sequence):
            index = parent.items.index(node)
            spans = [(item.start, item.end) for item in parent.items]
            return self._remove_flow(spans, index) if parent.flow else self._remove_item(parent, node)
        if isinstance(parent, Mapping) and field.key_node is not None:
            index = next((i for i, (key, _) in enumerate(parent.entries) if key is field.key_node), -1)
            # The key came by a merge from elsewhere in the text.
            if index < 0:
                raise TooUnusualError
            spans = [(key.start, max(key.end, value.end)) for key, value in parent.entries]
            return self._remove_flow(spans, index) if parent.flow else self._remove_entry(parent, index)
        raise TooUnusualError

    def _remove_flow(self, spans: list[tuple[int, int]], index: int) -> Splice:
        start, end = spans[index]
        if index + 1 < len(spans):
            return Splice(start, spans[index + 1][0], "")
        if index > 0:
            return Splice(spans[index - 1][1], end, "")
        return Splice(start, end, "")

    def _remove_item(self, parent: Sequence, node: Node) -> Splice:
        dash = self._dash(node)
        if len(parent.items) == 1:
            return Splice(dash, content_end(node), "[]")
        start = self.source.line_start(dash)
        if self.text[start:dash].strip():
            raise TooUnusualError
        return Splice(start, self._line_after(node), "")

    def _remove_entry(self, parent: Mapping, index: int) -> Splice:
        key, value = parent.entries[index]
        if len(parent.entries) == 1:
            return Splice(key.start, max(key.end, content_end(value)), "{}")
        start = self.source.line_start(key.start)
        after = self._line_after(value)
        before = self.text[start : key.start]
        if not before.strip():
            return Splice(start, after, "")
        # The first field of an item stands behind the dash; the next one takes its place.
        if before.strip(" -") or index + 1 == len(parent.entries):
            raise TooUnusualError
        while self.text[after : after + 1] in (" ", "\n", "\r") and after < len(self.text):
            after += 1
        return Splice(key.start, after, "")

    def _line_after(self, node: Node) -> int:
        end = content_end(node)
        return end if end > 0 and self.text[end - 1] == "\n" else self.source.next_line(end)

    def _dash(self, node: Node) -> int:
        start = self.source.line_start(node.start)
        before = self.text[start : node.start].rstrip(" ")
        if not before.endswith("-"):
            raise TooUnusualError
        return start + len(before) - 1

    def _insert(self, mapping: Field, name: str, value: Data) -> Splice:
        if isinstance(mapping.node, Mapping):
            if mapping.node.flow:
                return self._insert_flow(mapping.node, name, value)
            first = mapping.node.entries[0][0]
            indent = first.start - self.source.line_start(first.start)
            return self._add_lines(mapping.node, indent, rendering.block_entry(name, value))
        if mapping.parent is None or not isinstance(mapping.key, str):
            raise TooUnusualError
        if mapping.node is None:
            return self._insert(mapping.parent, mapping.key, {name: value})
        return self._fill(mapping, {name: value})

    def _append(self, sequence: Field, value: Data) -> Splice:
        if isinstance(sequence.node, Sequence):
            if sequence.node.flow:
                return self._append_flow(sequence.node, value)
            dash = self._dash(sequence.node.items[-1])
            indent = dash - self.source.line_start(dash)
            return self._add_lines(sequence.node, indent, rendering.block_item(value))
        if sequence.parent is None or not isinstance(sequence.key, str):
            raise TooUnusualError
        if sequence.node is None:
            return self._insert(sequence.parent, sequence.key, [value])
        return self._fill(sequence, [value])

    def _add_lines(self, after: Node, indent: int, lines: list[str]) -> Splice:
        """New lines behind the last one of this block."""
        written = [" " * indent + line for line in lines]
        end, newline = content_end(after), self.source.newline
        if end > 0 and self.text[end - 1] == "\n":
            return Splice(end, end, newline.join(written) + newline, indent)
        end = self.source.line_end(end)
        return Splice(end, end, newline + newline.join(written), indent)

    def _fill(self, field: Field, value: Data) -> Splice:
        """A value for a field that has none yet, or null."""
        key, node, parent = field.key_node, field.node, field.parent.node if field.parent else None
        if key is None or not isinstance(node, Scalar) or node.value is not None:
            raise TooUnusualError
        if isinstance(parent, Mapping) and parent.flow:
            written = json.dumps(value) if self.text[key.start] == '"' else rendering.flow(value)
            return Splice(node.start, node.end, written if node.start < node.end else " " + written)
        if node.start < node.end:
            return Splice(node.start, node.end, rendering.flow(value))
        indent = key.start - self.source.line_start(key.start) + 2
        return self._add_lines(key, indent, rendering.block(value))

    def _insert_flow(self, node: Mapping, name: str, value: Data) -> Splice:
        if self.text[node.end - 1] != "}":
            raise TooUnusualError
        if not node.entries:
            as_json = self.text.lstrip().startswith("{")
            written = json.dumps({name: value}) if as_json else rendering.flow({name: value})
            return Splice(node.start, node.end, written)
        (first, _), (key, last) = node.entries[0], node.entries[-1]
        end = max(key.end, last.end)
        if self.text[first.start] == '"':
            return Splice(
                end, end, self._json_separator(key.start) + f"{json.dumps(name)}: {json.dumps(value)}"
            )
        return Splice(end, end, f", {rendering.scalar(name)}: {rendering.flow(value)}")

    def _append_flow(self, node: Sequence, value: Data) -> Splice:
        if self.text[node.end - 1] != "]":
            raise TooUnusualError
        as_json = self.text.lstrip().startswith("{")
        written = json.dumps(value) if as_json else rendering.flow(value)
        if not node.items:
            return Splice(node.start, node.end, f"[{written}]")
        last = node.items[-1]
        return Splice(last.end, last.end, self._json_separator(last.start) + written)

    def _json_separator(self, before: int) -> str:
        """A comma, and a new line where what stands before has its own."""
        start = self.source.line_start(before)
        indent = self.text[start:before]
        return ", " if indent.strip() else "," + self.source.newline + indent
