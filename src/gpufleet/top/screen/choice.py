"""What the person at the terminal has chosen, and how keys change it: a state machine without a terminal.

Keys are those of kubectl's, k9s's and nvitop's users: ``/`` filters, ``:`` goes to a view, ``s``, ``,`` and
``.`` choose the column to sort by, ``r`` turns the order round, ``?`` helps, ``q`` ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from gpufleet.top.screen import keys
from gpufleet.top.screen.views import VIEWS

FILTER, COMMAND = "/", ":"
TYPED_MAX = 200
"""More than a name has, and less than a paste by mistake."""
NAMES = tuple(VIEWS)
# What k9s and kubectl call these.
ALIASES = {
    "no": "node",
    "nodes": "node",
    "queues": "queue",
    "fq": "queue",
    "gangs": "gang",
    "po": "pod",
    "pods": "pod",
}


@dataclass(frozen=True)
class Choice:
    """The choice. ``typing`` is FILTER or COMMAND while a line is typed, ``typed`` the line so far.

    ``sorts`` has the column for each view in which another one was chosen. ``selected`` is the key of the
    chosen line, "" for the first. ``refreshes`` counts how often a refresh was asked for.
    """

    view: str = "node"
    sorts: dict[str, str] = field(default_factory=dict)
    reverse: bool = False
    filter: str = ""
    wide: bool = False
    helps: bool = False
    typing: str = ""
    typed: str = ""
    message: str = ""
    selected: str = ""
    refreshes: int = 0
    is_over: bool = False

    @property
    def sort_by(self) -> str:
        """The column by which the view is sorted."""
        return self.sorts.get(self.view, VIEWS[self.view].sort_by)


def pressed(choice: Choice, key: str, shown: Sequence[str], page: int) -> Choice:
    """The choice after a key. ``shown`` are the keys of all lines in their order, ``page`` how many a screen
    has.
    """
    # Before all else, since these keys end the view whatever is being typed.
    if key in {keys.INTERRUPT, keys.F10}:
        return replace(choice, is_over=True)
    choice = replace(choice, message="")
    if choice.typing:
        return _typed(choice, key)
    if choice.helps:
        return replace(choice, helps=False, is_over=key == "q")
    moved = _moved(choice, key, shown, page)
    if moved is not None:
        return replace(choice, selected=moved)
    return _commanded(choice, key)


def _commanded(choice: Choice, key: str) -> Choice:
    match key:
        case "q":
            return replace(choice, is_over=True)
        case "?" | "h":
            return replace(choice, helps=True)
        case "/" | ":":
            return replace(choice, typing=key, typed=choice.filter if key == FILTER else "")
        case keys.ESCAPE:
            return replace(choice, filter="")
        case "r":
            return replace(choice, reverse=not choice.reverse)
        case "w" | keys.WIDE:
            return replace(choice, wide=not choice.wide)
        case keys.REFRESH:
            return replace(choice, refreshes=choice.refreshes + 1)
        case "s" | ".":
            return _sorted_by(choice, 1)
        case ",":
            return _sorted_by(choice, -1)
        case keys.TAB | keys.RIGHT:
            return _turned(choice, 1)
        case keys.BACK_TAB | keys.LEFT:
            return _turned(choice, -1)
        case _ if key.isascii() and key.isdigit() and 1 <= int(key) <= len(NAMES):
            return _to(choice, NAMES[int(key) - 1])
    return choice


def _typed(choice: Choice, key: str) -> Choice:
    if key == keys.ESCAPE:
        return replace(choice, typing="", typed="")
    if key == keys.ENTER:
        done = replace(choice, typing="", typed="")
        return (
            replace(done, filter=choice.typed) if choice.typing == FILTER else _filtered(done, choice.typed)
        )
    if key == keys.BACKSPACE:
        return replace(choice, typed=choice.typed[:-1]) if choice.typed else replace(choice, typing="")
    if len(key) == 1 and len(choice.typed) < TYPED_MAX:
        return replace(choice, typed=choice.typed + key)
    return choice


def _filtered(choice: Choice, words: str) -> Choice:
    name = words.strip().lower()
    if name in {"q", "quit", "q!"}:
        return replace(choice, is_over=True)
    view = ALIASES.get(name, name)
    if view in NAMES:
        return _to(choice, view)
    return (
        replace(choice, message=f"no view {words.strip()!r}: one of {', '.join(NAMES)}") if name else choice
    )


def _to(choice: Choice, view: str) -> Choice:
    return choice if view == choice.view else replace(choice, view=view, selected="", reverse=False)


def _turned(choice: Choice, step: int) -> Choice:
    return _to(choice, NAMES[(NAMES.index(choice.view) + step) % len(NAMES)])


def _sorted_by(choice: Choice, step: int) -> Choice:
    names = [one.name for one in VIEWS[choice.view].columns if not one.is_wide]
    place = names.index(choice.sort_by) if choice.sort_by in names else 0
    chosen = {**choice.sorts, choice.view: names[(place + step) % len(names)]}
    return replace(choice, sorts=chosen, reverse=False)


def _moved(choice: Choice, key: str, shown: Sequence[str], page: int) -> str | None:
    """The line that is chosen after a key that moves; None for another key."""
    steps = {
        keys.UP: -1,
        "k": -1,
        keys.DOWN: 1,
        "j": 1,
        keys.PAGE_UP: -page,
        keys.PAGE_DOWN: page,
        keys.HOME: -len(shown),
        "g": -len(shown),
        keys.END: len(shown),
        "G": len(shown),
        " ": page,
    }
    if key not in steps:
        return None
    if not shown:
        return ""
    place = shown.index(choice.selected) if choice.selected in shown else 0
    return shown[min(max(place + steps[key], 0), len(shown) - 1)]
