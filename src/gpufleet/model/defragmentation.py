"""When running pods are moved unasked, and how many at most."""

import msgspec

from gpufleet.model.identifiers import QueueName

# Windows are times of a day in UTC.
DAY_US = 86_400_000_000


class DayWindow(msgspec.Struct, frozen=True):
    """Part of every day (UTC), in microseconds since midnight.

    One that ends before it begins spans midnight.
    """

    from_us: int
    until_us: int

    def holds(self, at_us: int) -> bool:
        """True if a moment lies in the window."""
        return (at_us - self.from_us) % DAY_US < self.length_us

    @property
    def length_us(self) -> int:
        """How long it lasts."""
        return (self.until_us - self.from_us) % DAY_US or DAY_US

    def next_us(self, at_us: int) -> int:
        """The first moment from then on that lies in it."""
        return at_us if self.holds(at_us) else at_us + (self.from_us - at_us) % DAY_US


class DefragmentationRules(msgspec.Struct, frozen=True, omit_defaults=True):
    """When pods are moved, and the budget that all moves share.

    ``start_after_us``: work that has waited for so long may be started by moves; None: never. ``every_us``:
    how often free GPUs are put together though no work waits, in the ``window`` if there is one; None: never.
    At most ``moves_a_run`` pods are moved at once, ``moves_a_day`` within any 24 hours, and the work that
    ends with these is at most ``lost_a_day`` (GPU-milliseconds; None: any). Where ``queues`` are named, only
    their work is started by moves, and only their work is moved.
    """

    start_after_us: int | None = None
    every_us: int | None = None
    window: DayWindow | None = None
    moves_a_run: int = 10
    moves_a_day: int = 100
    lost_a_day: int | None = None
    queues: tuple[QueueName, ...] = ()

    def reaches(self, queue: QueueName) -> bool:
        """True if work of this queue may be moved, and started by moves."""
        return not self.queues or queue in self.queues
