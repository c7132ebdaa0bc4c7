"""Claims that one pod at a time may use in the whole cluster (ReadWriteOncePod; VolumeRestrictions).

A pod on a node that is not known holds its claims like any other.
"""

from gpufleet.model.identifiers import PodUid


class ExclusiveClaims:
    """Which pods that have a place use which exclusive claim."""

    def __init__(self) -> None:
        self._users: dict[str, dict[PodUid, None]] = {}

    def take(self, claims: tuple[str, ...], uid: PodUid) -> None:
        """A pod with these claims has a place."""
        for claim in claims:
            self._users.setdefault(claim, {})[uid] = None

    def give_back(self, claims: tuple[str, ...], uid: PodUid) -> None:
        """A pod with these claims has no place any more."""
        for claim in claims:
            users = self._users.get(claim, {})
            users.pop(uid, None)
            if not users:
                self._users.pop(claim, None)

    def are_in_use(self, claims: tuple[str, ...]) -> bool:
        """True if some pod that has a place uses one of the claims."""
        return any(claim in self._users for claim in claims)
