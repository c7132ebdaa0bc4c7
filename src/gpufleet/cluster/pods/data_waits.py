"""How long pods wait for a node that has their data before they copy it.

A pod with ``gpufleet.io/data-policy: WaitUpTo=10m`` waits so long from when it was made, and never longer
than the copy would take, so that it spends at most twice the better of the two. Of an unknown size it waits
as long as it says. Until then its data is required, afterwards preferred. Images are only ever preferred.
"""

import heapq
from collections.abc import Callable

import msgspec

from gpufleet.cluster.engine_time import US_PER_S
from gpufleet.cluster.pods.data_sizes import DataSizes
from gpufleet.engine.state.data_copies import COPY_BYTES_PER_S
from gpufleet.kube.codec.lookup import Lookup
from gpufleet.model.data import DataAsk, DataNeeds, DataPolicy
from gpufleet.model.identifiers import PodUid
from gpufleet.model.pod import Pod

IMAGE_BYTES_LEAST = 1 << 30
"""A smaller image is pulled in about a second, and makes no node better than another."""


class DataWaits:
    """Decides for each pod whether it still waits, and says when that is over."""

    def __init__(self, cluster: Lookup, now_us: Callable[[], int]) -> None:
        self.sizes = DataSizes(cluster)
        self.now_us = now_us
        self._due: list[tuple[int, PodUid]] = []

    def decided(self, pod: Pod, images: tuple[DataAsk, ...] = ()) -> Pod:
        """The pod with data that it requires or prefers, and with those of its images that are large.

        An image that no node has is of an unknown size, so no node is better than another for it.
        """
        known = tuple(one for one in images if (self.sizes.largest(one) or 0) >= IMAGE_BYTES_LEAST)
        if known:
            pod = _with_data(pod, msgspec.structs.replace(pod.shape.relations.data, images=known))
        data = pod.shape.relations.data
        if data.policy is not DataPolicy.WAIT_UP_TO:
            return pod
        until_us = pod.created_at_us + min(data.wait_us or 0, self._copy_us(data.asks))
        waits = self.now_us() < until_us
        if waits:
            heapq.heappush(self._due, (until_us, pod.uid))
        policy = DataPolicy.REQUIRE if waits else DataPolicy.PREFER
        needs = msgspec.structs.replace(data, policy=policy, wait_us=None)
        return _with_data(pod, needs)

    def take_due(self) -> list[PodUid]:
        """The pods whose wait is over since this was asked; some of them may be gone."""
        now_us, due = self.now_us(), []
        while self._due and self._due[0][0] <= now_us:
            due.append(heapq.heappop(self._due)[1])
        return due

    def _copy_us(self, asks: tuple[DataAsk, ...]) -> int:
        """How long it takes to copy all of it; without end where a size is not known."""
        size = 0
        for ask in asks:
            of_one = ask.size_bytes or self.sizes.largest(ask)
            if of_one is None:
                return _WITHOUT_END
            size += of_one
        return size * US_PER_S // COPY_BYTES_PER_S


def _with_data(pod: Pod, data: DataNeeds) -> Pod:
    relations = msgspec.structs.replace(pod.shape.relations, data=data)
    return msgspec.structs.replace(pod, shape=msgspec.structs.replace(pod.shape, relations=relations))


_WITHOUT_END = 1 << 62
"""Longer than any wait that a pod may say."""
