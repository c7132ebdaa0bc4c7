"""The differential test can fail: with any one filter of ours broken, some case tells."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpufleet.engine.place.relations import neighbours
from gpufleet.engine.place.relations.attachments import Attachments
from gpufleet.engine.place.relations.exclusive_volume_claims import ExclusiveClaims
from gpufleet.engine.place.relations.unbound_volume_claims import UnboundClaims
from gpufleet.engine.state import eligibility
from gpufleet.kube.codec import containers, provisioning
from gpufleet.kube.codec import pod as pod_codec
from gpufleet.model.host_port import HostPort
from gpufleet.model.requests import PodAmounts
from tests.differential import ours, server, theirs
from tests.differential.comparison import furnish, questions
from tests.differential.generator import make_case

SEED = 7
CASES = 300


def no_reasons(*_: object, **__: object) -> int:
    """Nothing is ever wrong."""
    return 0


def everywhere(_: object, fleet: Any) -> object:
    """Every node will do."""
    return np.ones(fleet.row_count, np.bool_)


def without_overhead(spec: Any) -> PodAmounts:
    """The amounts of the containers alone."""
    found = READ_AMOUNTS(spec)
    return PodAmounts(found.containers, found.init_containers)


def without_init(spec: Any) -> PodAmounts:
    """The amounts of the containers that stay."""
    found = READ_AMOUNTS(spec)
    return PodAmounts(found.containers, (), found.pod_requests, found.pod_limits, found.overhead)


READ_AMOUNTS = containers.pod_amounts


@dataclass(frozen=True)
class Break:
    """What is replaced by what, and the theme whose cases must tell. ``reads`` if it is the codec's."""

    theme: str
    owner: object
    name: str
    by: Callable[..., object]
    reads: bool = False


BROKEN: Mapping[str, Break] = {
    "taints": Break("taints", eligibility, "untolerated", lambda *_: None),
    "node selection": Break("labels", eligibility, "selected_nodes", everywhere),
    "features": Break("features", eligibility, "reasons_by_features", no_reasons),
    "ports": Break("ports", HostPort, "conflicts", lambda *_: False),
    "spread": Break("spread", neighbours, "spread_reasons", no_reasons),
    "affinity": Break("affinity", neighbours, "affinity_reasons", no_reasons),
    "anti-affinity": Break("affinity", neighbours, "anti_affinity_reasons", no_reasons),
    "anti-affinity of others": Break("affinity", neighbours, "others_reasons", no_reasons),
    "limits of volumes": Break("storage", Attachments, "reasons", no_reasons),
    "claims of one pod": Break("storage", ExclusiveClaims, "are_in_use", lambda *_: False),
    "claims that wait": Break("storage", UnboundClaims, "reasons", no_reasons),
    "capacity of drivers": Break("storage", provisioning, "_is_enough", lambda *_: True, reads=True),
    "where volumes are": Break("storage", pod_codec, "_with_volumes", lambda shape, _: shape, reads=True),
    "overhead": Break("amounts", pod_codec, "pod_amounts", without_overhead, reads=True),
    "init containers": Break("amounts", pod_codec, "pod_amounts", without_init, reads=True),
}


def test_a_broken_filter_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [make_case(SEED, number) for number in range(CASES)]
    with server.control_plane(tmp_path) as cluster:

        async def told() -> list[str]:
            async with server.client_of(cluster) as client:
                await furnish(client, cases)
                answers = await theirs.feasible_nodes(cluster, client, cases)
                missed, usual = [], await ours.read(client)
                for name, broken in BROKEN.items():
                    concerned = [case for case in cases if broken.theme in case.themes]
                    with monkeypatch.context() as patch:
                        # What was read before it broke must not be remembered.
                        patch.setattr(pod_codec, "_SHAPES", {})
                        patch.setattr(broken.owner, broken.name, broken.by)
                        reading = await ours.read(client) if broken.reads else usual
                        judged = ours.judgements(reading, concerned)
                    if all(one.agreed for one in questions(concerned, judged, answers)):
                        missed.append(name)
                return missed

        assert asyncio.run(told()) == []
