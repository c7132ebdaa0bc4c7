"""A place in an object: the value there, if any, and the path that leads to it.

Rules and views read objects through fields, so that whatever they find carries its place. A field that
is missing is a field too, and says where it would stand. What has another type than asked for reads
as missing; ``objects.shapes`` reports it.
"""

from collections.abc import Iterator

from gpufleet.lint.source.nodes import Mapping, Node, Scalar, Sequence


class Field:
    """One place in an object. Never changes."""

    __slots__ = ("key", "key_node", "node", "parent")

    def __init__(
        self,
        node: Node | None,
        parent: "Field | None" = None,
        key: str | int = "",
        key_node: Scalar | None = None,
    ) -> None:
        self.node = node
        self.parent = parent
        self.key = key
        self.key_node = key_node

    def at(self, *keys: str) -> "Field":
        """The field under these names, which may be missing."""
        found = self
        for key in keys:
            found = found._one(key)
        return found

    def _one(self, key: str) -> "Field":
        if isinstance(self.node, Mapping):
            for key_node, value in self.node.entries:
                if key_node.text == key:
                    return Field(value, self, key, key_node)
            for key_node, value in self.node.merged:
                if key_node.text == key:
                    return Field(value, self, key, key_node)
        return Field(None, self, key)

    def text_at(self, *keys: str) -> str | None:
        """The single value under these names as it is written; None where there is none."""
        return self.at(*keys).text

    def texts_at(self, *keys: str) -> dict[str, str]:
        """The single values of the mapping under these names."""
        return self.at(*keys).texts()

    def items_at(self, *keys: str) -> "list[Field]":
        """The items of the list under these names; none of anything else."""
        return self.at(*keys).items()

    def names_at(self, *keys: str) -> tuple[str, ...]:
        """The names in the mapping under these names; none of anything else."""
        return tuple(name for name, _ in self.at(*keys).entries())

    def items(self) -> "list[Field]":
        """The items of a list; none of anything else."""
        if not isinstance(self.node, Sequence):
            return []
        return [Field(item, self, index) for index, item in enumerate(self.node.items)]

    def entries(self) -> "Iterator[tuple[str, Field]]":
        """The fields of a mapping by name; none of anything else."""
        if isinstance(self.node, Mapping):
            for key_node, value in (*self.node.entries, *self.node.merged):
                yield key_node.text, Field(value, self, key_node.text, key_node)

    def by_name(self) -> "dict[str, Field]":
        """The fields of a mapping by name; none of anything else."""
        return dict(self.entries())

    def texts(self) -> dict[str, str]:
        """The single values of a mapping, such as labels, by name; as ``at`` finds them."""
        found: dict[str, str] = {}
        if isinstance(self.node, Mapping):
            # Read of every pod of a cluster: without a field for each value.
            for name, one in (*self.node.entries, *self.node.merged):
                if isinstance(one, Scalar) and not one.is_null:
                    found.setdefault(name.text, one.text)
        return found

    @property
    def exists(self) -> bool:
        """Whether a value stands here; null is none, as Kubernetes drops it."""
        return self.node is not None and not (isinstance(self.node, Scalar) and self.node.is_null)

    @property
    def text(self) -> str | None:
        """A single value as it is written; None where there is none."""
        return self.node.text if isinstance(self.node, Scalar) and not self.node.is_null else None

    @property
    def integer(self) -> int | None:
        """A whole number; None where there is none."""
        value = self.node.value if isinstance(self.node, Scalar) else None
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def is_true(self) -> bool:
        """Whether true stands here."""
        return isinstance(self.node, Scalar) and self.node.value is True

    @property
    def offset(self) -> int:
        """Where the field stands: its name, else its value, else the nearest field around it."""
        if self.key_node is not None:
            return self.key_node.start
        if self.node is not None:
            return self.node.start
        return self.parent.offset if self.parent is not None else 0

    @property
    def keys(self) -> tuple[str | int, ...]:
        """The way from the root of the document."""
        return () if self.parent is None else (*self.parent.keys, self.key)

    @property
    def path(self) -> str:
        """The way from the root of the document, as people write it."""
        return written_path(self.keys)


def written_path(keys: tuple[str | int, ...]) -> str:
    """A path as people write it: spec.containers[0].image, with dotted names in brackets."""
    parts = []
    for key in keys:
        if isinstance(key, int):
            parts.append(f"[{key}]")
        elif "." in key or "/" in key or not key:
            parts.append(f'["{key}"]')
        else:
            parts.append(f".{key}" if parts else key)
    return "".join(parts)
