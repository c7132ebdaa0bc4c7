"""Reading documents that any user may have written: what is not of its form is taken for absent."""

from gpufleet.auditor.record import Document


def section(value: Document, *path: str) -> Document:
    """The map at a path, empty where there is none."""
    found: object = value
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def rows(value: Document, *path: str) -> list[Document]:
    """The maps of the list at a path."""
    found = section(value, *path[:-1]).get(path[-1])
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def texts(value: Document, *path: str) -> list[str]:
    """The texts of the list at a path."""
    found = section(value, *path[:-1]).get(path[-1])
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def mapping(value: Document, *path: str) -> dict[str, str]:
    """The texts by name of the map at a path; numbers are written out."""
    found = section(value, *path)
    return {key: str(one) for key, one in found.items() if isinstance(one, str | int | float)}


def number(value: object, absent: int = 0) -> int:
    """The value if it is a whole number; else what counts for an absent one."""
    return value if isinstance(value, int) and not isinstance(value, bool) else absent
