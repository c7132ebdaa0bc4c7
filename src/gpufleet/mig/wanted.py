"""The layouts that the cards of a node shall have, as its annotation says them, and how far they are.

    {"GPU-a": ["2g.20gb@2", "3g.40gb@4"], "GPU-b": null}

An instance is its profile with the memory slice where it begins. A card of null shall be out of MIG mode,
and a card that is not named stays as it is.
"""

import datetime as dt
import enum

import msgspec

from gpufleet.mig.mig_errors import MigPlanError
from gpufleet.mig.step_times import StepTimes
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import Layout, MigInstance

LAYOUTS_ANNOTATION = "gpufleet.io/mig-layouts"
"""On a Node, written by people and programs that want layouts."""

STATES_ANNOTATION = "gpufleet.io/mig-layout-states"
"""On a Node, written by its agent."""

DEMAND_ANNOTATION = "gpufleet.io/mig-layout-demand"
"""On a Node, written by the scheduler with the layouts that it chose for pods that wait."""

Wanted = dict[DeviceId, Layout | None]


class LayoutState(enum.Enum):
    """How far a card is, in the words of ``nvidia.com/mig.config.state`` where there are some."""

    WAITING = "waiting"
    """Something in use is in the way; nothing was touched."""

    PENDING = "pending"
    SUCCESS = "success"
    FAILED = "failed"
    """The card has its layout before, or what the driver left of it."""


class ChangeTimes(msgspec.Struct, frozen=True):
    """When the agent began with a change of a card, when that was over, and how long its steps took."""

    began: dt.datetime
    ended: dt.datetime
    steps: StepTimes

    @property
    def words(self) -> str:
        """How long it took, by step."""
        took_s = (self.ended - self.began).total_seconds()
        return f"in {took_s:.1f} s ({self.steps.words})" if self.steps.words else f"in {took_s:.1f} s"


class CardLayoutState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of one card, and why it is not as wanted.

    ``layout`` is the one that it speaks of: a wish that the agent has not read yet has no state. ``took`` is
    of the change that led to the state; None where none was made, or none is known.
    """

    state: LayoutState
    problem: str = ""
    layout: tuple[str, ...] | msgspec.UnsetType | None = msgspec.UNSET
    took: ChangeTimes | None = None


States = dict[DeviceId, CardLayoutState]


class DemandRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A layout that the scheduler chose for a card: when, and for which pods; none where it is made whole.

    It speaks for itself alone: once another layout is written for the card, that one is not the scheduler's.
    """

    texts: tuple[str, ...] | None = msgspec.field(name="layout")
    since: dt.datetime
    pods: tuple[str, ...] = ()

    @property
    def layout(self) -> Layout | None:
        """The layout. Raises MigPlanError for a text that names none."""
        return None if self.texts is None else tuple(sorted(map(read_place, self.texts)))


Demand = dict[DeviceId, DemandRecord]

_WANTED = msgspec.json.Decoder(dict[DeviceId, tuple[str, ...] | None])
_STATES = msgspec.json.Decoder(States)
_DEMAND = msgspec.json.Decoder(Demand)


def read_wanted(text: str) -> Wanted:
    """The layouts of an annotation; none for no text. Raises MigPlanError."""
    if not text:
        return {}
    try:
        found = _WANTED.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        expected = '{"GPU-a": ["3g.40gb@4"], "GPU-b": null}'
        raise MigPlanError(f"no layouts: {error}", field=LAYOUTS_ANNOTATION, expected=expected) from None
    return {
        card: None if places is None else tuple(sorted(map(read_place, places)))
        for card, places in found.items()
    }


def write_wanted(wanted: Wanted) -> str:
    """The annotation's text."""
    return msgspec.json.encode({card: layout_texts(layout) for card, layout in wanted.items()}).decode()


def read_states(text: str) -> States:
    """How far the cards are; none for no text. Raises MigPlanError."""
    if not text:
        return {}
    try:
        return _STATES.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        expected = "what the agent of the node writes"
        raise MigPlanError(f"no states: {error}", field=STATES_ANNOTATION, expected=expected) from None


def read_demand(text: str) -> Demand:
    """What the scheduler chose; none for no text. Raises MigPlanError."""
    if not text:
        return {}
    try:
        found = _DEMAND.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        expected = "what the scheduler writes"
        raise MigPlanError(f"no records: {error}", field=DEMAND_ANNOTATION, expected=expected) from None
    for one in found.values():
        for place in one.texts or ():
            read_place(place)
    return found


def write_demand(demand: Demand, wanted: Wanted) -> str:
    """The annotation's text, without records of layouts that are not wanted any more."""
    kept = {card: one for card, one in demand.items() if card in wanted and one.layout == wanted[card]}
    return msgspec.json.encode(kept).decode()


def layout_texts(layout: Layout | None) -> tuple[str, ...] | None:
    """A layout as it is written; None for a card out of MIG mode."""
    return None if layout is None else tuple(f"{one.profile}@{one.start}" for one in layout)


def read_place(text: str) -> MigInstance:
    """An instance with its place. Raises MigPlanError."""
    profile, _, start = text.partition("@")
    if not (profile and start.isascii() and start.isdigit() and len(start) < 3):
        expected = "a profile and its first memory slice, as in 3g.40gb@4"
        raise MigPlanError("no instance", field=LAYOUTS_ANNOTATION, value=text, expected=expected)
    return MigInstance(int(start), profile)
