"""Tells in time that a certificate or a token ends and has not been renewed.

A warning in the log once a day, and whatever ``on_near`` makes of it. What is known is also shown as
metrics, so that an alert can be written (docs/faults-agent.md).
"""

import logging
from collections.abc import Callable, Iterable

from gpufleet.kube.clock import Clock
from gpufleet.kube.expiry import Expiry

LOG = logging.getLogger(__name__)
POLL_EVERY_S = 60.0
"""Credentials live for minutes at least, and a look costs next to nothing."""

SAID_EVERY_S = 86_400.0
"""A warning once a day is noticed and does not bury the log."""


class ExpiryWatch:
    """Looks at what ``sources`` tells: each credential once, under its name."""

    def __init__(self, sources: Callable[[], Iterable[Expiry]], clock: Clock) -> None:
        self._sources = sources
        self._clock = clock
        self._said_at_s: dict[str, float] = {}
        self.known: tuple[Expiry, ...] = ()
        """The health of the credentials at the last look."""
        self.on_look: Callable[[tuple[Expiry, ...]], None] = lambda _: None
        self.on_near: Callable[[str], None] = lambda _: None
        """Gets the sentence that is said."""

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            self.look()
            await self._clock.sleep(POLL_EVERY_S)

    def look(self) -> None:
        """What there is now; what is near its end is said once a day."""
        self.known = tuple(self._sources())
        self.on_look(self.known)
        now = self._clock.now()
        near = {one.credential: one for one in self.known if one.is_near(now.timestamp())}
        # What was renewed is forgotten, so that its next end is said at once.
        self._said_at_s = {name: at_s for name, at_s in self._said_at_s.items() if name in near}
        for name, one in near.items():
            now_s = self._clock.monotonic_s()
            if now_s - self._said_at_s.get(name, -SAID_EVERY_S) >= SAID_EVERY_S:
                self._said_at_s[name] = now_s
                sentence = one.sentence(now.timestamp())
                LOG.warning(sentence)
                self.on_near(sentence)
