"""The energy of pods only grows, and with nobody's it is what the card drew."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from gpufleet.agent.exporter.energy import Account, EnergyCounters
from gpufleet.agent.holders.held_parts import PodName
from gpufleet.model.identifiers import DeviceId

CARD = DeviceId("GPU-1")
ACCOUNTS = [Account(PodName("team-a", name)) for name in ("a", "b", "c")]
A, B, C = ACCOUNTS


def test_a_card_begins_with_nothing_to_divide() -> None:
    book = EnergyCounters()
    book.book(CARD, 5_000_000, {A: 1.0})
    assert book.of_pod(CARD, A) == 0
    assert book.unattributed(CARD) == 0


def test_what_was_drawn_is_divided_by_the_parts() -> None:
    book = EnergyCounters()
    book.book(CARD, 1000, {A: 0.5, B: 0.25})
    book.book(CARD, 2000, {A: 0.5, B: 0.25})
    assert [book.of_pod(CARD, one) for one in ACCOUNTS] == [500, 250, None]
    assert book.unattributed(CARD) == 250


def test_a_counter_that_begins_anew_loses_nothing_of_what_was_booked() -> None:
    book = EnergyCounters()
    book.book(CARD, 1000, {A: 1.0})
    book.book(CARD, 3000, {A: 1.0})
    book.book(CARD, 400, {A: 1.0})
    assert book.of_pod(CARD, A) == 2400


def test_a_card_that_does_not_tell_its_energy_has_no_accounts() -> None:
    book = EnergyCounters()
    book.book(CARD, None, {A: 1.0})
    assert book.of_pod(CARD, A) is None
    assert book.unattributed(CARD) is None


class Books(RuleBasedStateMachine):
    """Samples, pods that come and go, cards that are reset: the sum stays what was drawn."""

    @initialize()
    def first(self) -> None:
        """A card that begins at 0."""
        self.book = EnergyCounters()
        self.counter_mj = 0
        self.drawn_mj = 0
        self.closed_mj = 0
        self.before: dict[Account, int] = {}
        self.book.book(CARD, 0, {})

    @rule(
        more_mj=st.integers(0, 10**7),
        parts=st.dictionaries(st.sampled_from(ACCOUNTS), st.floats(0, 1, allow_nan=False)),
    )
    def sample(self, more_mj: int, parts: dict[Account, float]) -> None:
        """The card drew so much."""
        self.counter_mj += more_mj
        self.drawn_mj += more_mj
        self.book.book(CARD, self.counter_mj, parts)

    @rule(shown_mj=st.integers(0, 10**6))
    def reset(self, shown_mj: int) -> None:
        """The card's counter begins anew."""
        if shown_mj < self.counter_mj:
            self.counter_mj = shown_mj
            self.drawn_mj += shown_mj
            self.book.book(CARD, shown_mj, {})

    @rule(left=st.sets(st.sampled_from(ACCOUNTS)))
    def pods_end(self, left: set[Account]) -> None:
        """Only these pods are left."""
        for one in set(ACCOUNTS) - left:
            self.closed_mj += self.book.of_pod(CARD, one) or 0
            self.before.pop(one, None)
        self.book.keep(CARD, left)

    @invariant()
    def adds_up(self) -> None:
        """What was drawn is somebody's, was somebody's, or is nobody's."""
        open_mj = sum(self.book.of_pod(CARD, one) or 0 for one in ACCOUNTS)
        assert open_mj + self.closed_mj + (self.book.unattributed(CARD) or 0) == self.drawn_mj

    @invariant()
    def only_grows(self) -> None:
        """No account of a pod that is there goes back."""
        now = {one: amount for one in ACCOUNTS if (amount := self.book.of_pod(CARD, one)) is not None}
        assert all(amount >= self.before.get(one, 0) >= 0 for one, amount in now.items())
        self.before = now


TestBooks = Books.TestCase
