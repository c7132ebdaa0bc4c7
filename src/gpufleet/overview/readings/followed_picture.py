"""Every kind that decisions depend on, followed by watches, and a picture of it at any moment.

A question lists nothing: however often people ask, the API server sends each change once.
"""

import asyncio

from gpufleet.cluster.watching.change_queue import Seen
from gpufleet.cluster.watching.mirrors import WATCHED
from gpufleet.cluster.watching.picture import Picture
from gpufleet.kube.client import Client
from gpufleet.kube.mirror_changes import Unreadable
from gpufleet.model.model_errors import WorldError
from gpufleet.overview.readings.kind_reader import KindReader

WHOLE_S = 60.0
"""A cluster of 10,000 nodes is listed within some ten seconds; a server that takes longer is in trouble."""

POLL_S = 0.05
"""Between two looks at whether all is listed; a person waits for it."""


class FollowedPicture:
    """The kinds. ``run`` follows them until it is cancelled."""

    def __init__(self, client: Client) -> None:
        self._readers = [KindReader(client, one.kind, one.type, optional=one.optional) for one in WATCHED]

    async def run(self) -> None:
        """Follow everything."""
        async with asyncio.TaskGroup() as group:
            for one in self._readers:
                group.create_task(one.run())

    async def now(self) -> Picture:
        """The picture as it is now. Raises WorldError where the API server does not let it become whole."""
        try:
            async with asyncio.timeout(WHOLE_S):
                while not all(one.is_whole for one in self._readers):  # noqa: ASYNC110  readers have no event
                    await asyncio.sleep(POLL_S)
        except TimeoutError as error:
            troubles = [one.trouble() for one in self._readers if one.trouble()]
            why = troubles[0] if troubles else "it does not answer in time"
            raise WorldError(f"the API server cannot be read: {why}") from error
        picture = Picture()
        for one in self._readers:
            picture.objects[one.kind] = dict(one.objects)
            if one.refused:
                picture.forbidden.append(one.kind)
            picture.unreadable += [
                Seen(one.kind, Unreadable(namespace, name, identity.uid, "it cannot be read"))
                for (namespace, name), identity in one.unreadable.items()
            ]
        return picture
