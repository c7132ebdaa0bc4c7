"""A caller, as the API server knows one."""

from collections.abc import Mapping

import msgspec

ADMINISTRATORS = "system:masters"
"""The group that may do everything: no review is needed for it."""


AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
"""Groups of all callers that the API server knows, and of all others."""


class Caller(msgspec.Struct, frozen=True):
    """A user with groups; ``extra`` is what else was vouched for."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}

    def authenticated(self) -> "Caller":
        """The caller in the group of all that are known, as the API server's own library puts them there.

        The API server names no group of its own users that ask for discovery, and they read by that group.
        """
        if AUTHENTICATED in self.groups or UNAUTHENTICATED in self.groups:
            return self
        return msgspec.structs.replace(self, groups=(*self.groups, AUTHENTICATED))
