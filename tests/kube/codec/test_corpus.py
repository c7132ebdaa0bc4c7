"""Malformed and odd objects, each a file of the corpus with the verdict that it must get.

Whatever the verdict, nothing recurses, nothing takes long, and no hostile character reaches a message.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpufleet.dra_allocation.pools import SliceIndex
from gpufleet.dra_allocation.slices import NodeFacts, ResourceSlice
from gpufleet.kube.codec.gang_terms import Membership
from gpufleet.kube.codec.gangs import make_gang, read_membership
from gpufleet.kube.codec.grant import read_grant
from gpufleet.kube.codec.pod import read_pod
from gpufleet.kube.codec.resource_slices import read_resource_slice
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.objects.pod import Pod
from gpufleet.kube.objects.resource_slices import ResourceSliceObject
from tests.kube.shelf import Shelf
from tests.kube.wire_objects import decoded

FILES = sorted((Path(__file__).parents[2] / "corpus" / "kube").glob("*.yaml"))
# Numbers of the list of malformed inputs that pods, groups and grants can have.
COVERED = {*range(1, 13), *range(14, 30), 38, 45, 47, 49, 50, 51, 52}


def story(path: Path) -> dict[str, Any]:
    """The file, with its one "@" replaced by what is too long to be written out."""
    told: dict[str, Any] = msgspec.yaml.decode(path.read_bytes())
    filling: object = None
    if "fill" in told:
        filling = told["fill"]["text"] * told["fill"]["times"]
    elif "repeat" in told:
        filling = [told["repeat"]["item"]] * told["repeat"]["times"]
    return {name: filled(part, filling) for name, part in told.items()}


def filled(part: Any, filling: object) -> Any:
    if isinstance(part, dict):
        return {name: filled(inner, filling) for name, inner in part.items()}
    if isinstance(part, list):
        return [filled(inner, filling) for inner in part]
    return filling if part == "@" and filling is not None else part


def slice_of(told: dict[str, Any]) -> ResourceSlice:
    """The slice of devices of a file. Raises ObjectError."""
    return read_resource_slice(decoded(told["input"], ResourceSliceObject))


def read(told: dict[str, Any]) -> dict[str, Any]:
    """What the codec makes of it."""
    if told.get("reads") == "grant":
        return {"grant": read_grant(told["grant"])}
    if told.get("reads") == "slice":
        (pool,) = SliceIndex([slice_of(told)]).pools(NodeFacts("n"))
        return {"problem": pool.problem, "devices": len(pool.candidates)}
    if told.get("reads") == "gang":
        members = []
        for written in told["members"]:
            pod = decoded(written, Pod)
            membership = read_membership(pod, Shelf())
            assert isinstance(membership, Membership)
            members.append((read_pod(pod), membership))
        return {"gang": make_gang(members[0][1].gang, members)}
    pod = read_pod(decoded(told["input"], Pod))
    return {
        "name": pod.name,
        "labels": [list(pair) for pair in pod.labels],
        "created_at_us": pod.created_at_us,
        "memory_bytes": pod.shape.resources.memory_bytes,
        "gpu_count": pod.shape.gpu.count,
        "gpu_milli": pod.shape.gpu.gpu_milli,
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_verdict(path: Path) -> None:
    told = story(path)
    assert path.name.startswith(f"{told['id']:02d}-")
    match told["verdict"]:
        case "refused":
            with pytest.raises(ObjectError) as caught:
                read(told)
            assert caught.value.field == told["error"]["field"]
            message = str(caught.value)
            assert message.isprintable()
            assert message.isascii()
            assert len(message) < 1000
        case "unreadable":
            with pytest.raises(msgspec.DecodeError):
                msgspec.json.decode(told["wire"].encode(), type=Pod)
        case "unused":
            assert read(told) == {"problem": told["problem"], "devices": 0}
        case "normalised":
            found = read(told)
            assert {name: found[name] for name in told["result"]} == told["result"]
        case other:
            pytest.fail(f"no such verdict: {other}")


def test_the_corpus_is_whole() -> None:
    assert {int(path.name[:2]) for path in FILES} == COVERED
