"""A scheduler that cannot begin says which kind of object it waits for, and why."""

import logging
from collections.abc import Mapping
from typing import cast

import msgspec
import pytest

from gpufleet.cluster.watching.mirrors import Cluster
from gpufleet.kube import resources
from gpufleet.kube.mirror import Health
from gpufleet.kube.resources import Kind
from gpufleet.scheduler.metrics import Metrics
from gpufleet.scheduler.status import Status

FORBIDDEN = 'pods is forbidden: User "u" cannot list resource "pods"'


class Mirrors:
    """A cluster of which the pods may not be listed and the nodes are."""

    lasting: Mapping[Kind, object] = {}

    def kept(self) -> dict[Kind, int]:
        """As `Cluster.kept`."""
        return {}

    def health(self) -> dict[Kind, Health]:
        """As `Cluster.health`."""
        counts = {"lists": 0, "watches": 0, "events": 0, "unreadable": 0}
        refused = Health(listed=False, following=False, heard_s_ago=None, problem=FORBIDDEN, **counts)
        fine = Health(listed=True, following=True, heard_s_ago=1.0, problem="", **counts)
        return {resources.PODS: refused, resources.NODES: fine}


def test_what_cannot_be_listed_is_named_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    status = Status()
    cluster = cast("Cluster", Mirrors())
    status.listing(cluster)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            status._look(cluster, Metrics())
    assert not status.ready().well
    assert f"pods: cannot be listed ({FORBIDDEN})" in status.ready().reasons
    assert [record.kind for record in caplog.records] == ["pods"]  # type: ignore[attr-defined]


class ListedAgain(Mirrors):
    """A cluster of which the nodes were listed so many times."""

    lists = 1

    def health(self) -> dict[Kind, Health]:
        """As `Cluster.health`."""
        fine = super().health()[resources.NODES]
        return {resources.NODES: msgspec.structs.replace(fine, lists=self.lists)}


def test_lists_beyond_the_first_of_each_leadership_are_counted() -> None:
    status, metrics, mirrors = Status(), Metrics(), ListedAgain()
    counted = metrics.relists.labels("nodes")._value.get
    for _ in range(2):
        mirrors.lists = 1
        status.listing(cast("Cluster", mirrors))
        status._look(cast("Cluster", mirrors), metrics)
    assert counted() == 0
    for lists, expected in ((2, 1), (2, 1), (5, 4)):
        mirrors.lists = lists
        status._look(cast("Cluster", mirrors), metrics)
        assert counted() == expected
