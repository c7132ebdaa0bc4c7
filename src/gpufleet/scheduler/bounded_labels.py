"""Values of a metric's label that others choose: the first so many have series of their own.

A writer of labels or statuses could make a hundred thousand names, each a series in every Prometheus that
scrapes us. What comes later is counted together under ``OTHERS``, which no name of Kubernetes can be.
"""

OTHERS = "_others"
"""No name of Kubernetes begins with an underscore, so no value can be taken for it."""

VALUES_MAX = 200
"""Each value is a series, and some metrics have a dozen for each."""


class BoundedLabels:
    """The values of one label that have series."""

    def __init__(self, most: int = VALUES_MAX) -> None:
        self._known: set[str] = set()
        self._most = most

    def of(self, value: str) -> str:
        """The value itself, or ``OTHERS`` where there are too many already."""
        if value in self._known:
            return value
        # Names are chosen by tenants, and each would be a series for as long as the process lives.
        if len(self._known) >= self._most:
            return OTHERS
        self._known.add(value)
        return value

    def forget(self, value: str) -> None:
        """Make room: the value has no series any more."""
        self._known.discard(value)
