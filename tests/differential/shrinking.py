"""Makes a case in which the schedulers disagree as small as it can be while they still do.

Round by round every single thing is left out of a copy of the case, all copies are put on a server of
their own at once, and what turned out to be unneeded is left out of the next round.
"""

import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gpufleet.kube.client import Client
from gpufleet.localkube.cluster import LocalCluster
from tests.differential import server
from tests.differential.cases import TOKEN, Case, Manifest, name_of, path_of
from tests.differential.comparison import Question, compare

ROUNDS_MAX = 24
IDENTITY = ("apiVersion", "kind", "metadata", "name", "namespace", "labels", "case")
POD = ("spec", "status", "containers", "image", "schedulerName", "nodeName", "nodeSelector")
KEPT = frozenset({*IDENTITY, *POD})
"""Fields without which there is no pod, or no case; what is in them may go."""

Step = str | int
Place = tuple[Step, ...]
"""Where in a case something stands: ("asked", 0, "spec", "tolerations", 1)."""

Cut = tuple[Place, ...]
"""Things that can only be left out together."""

Chosen = tuple[Cut, ...]


def cuts(case: Case) -> list[Cut]:
    """Everything that can be left out, the large things first."""
    return [*_nodes(case), *_objects(case), *_parts(case)]


def _nodes(case: Case) -> Iterator[Cut]:
    for position, one in enumerate(case.objects):
        if one["kind"] == "Node":
            there = (("objects", at) for at, pod in enumerate(case.objects) if _node_of(pod) == name_of(one))
            yield (("objects", position), *there)


def _node_of(manifest: Manifest) -> str:
    """The node to which an object belongs, "" for none."""
    if manifest["kind"] == "CSINode":
        return name_of(manifest)
    return str(manifest["spec"].get("nodeName", "")) if manifest["kind"] == "Pod" else ""


def _objects(case: Case) -> Iterator[Cut]:
    for position, one in enumerate(case.objects):
        if one["kind"] in {"Node", "PersistentVolumeClaim"}:
            continue
        claim = one["spec"].get("claimRef") if one["kind"] == "PersistentVolume" else None
        bound: Cut = ()
        if claim is not None:
            # A claim without its volume would never be what it shall be.
            path = f"{claim['namespace']}/{claim['name']}"
            bound = tuple(("objects", at) for at, other in enumerate(case.objects) if _is_claim(other, path))
        yield (("objects", position), *bound)
    for position, one in enumerate(case.objects):
        if one["kind"] == "PersistentVolumeClaim" and "volumeName" not in one["spec"]:
            yield (("objects", position),)


def _is_claim(manifest: Manifest, path: str) -> bool:
    return manifest["kind"] == "PersistentVolumeClaim" and path_of(manifest) == path


def _parts(case: Case) -> Iterator[Cut]:
    for where, manifests in (("objects", case.objects), ("asked", case.asked)):
        for position, one in enumerate(manifests):
            if one["kind"] in {"Pod", "Node"}:
                for place in _inside(one):
                    yield ((where, position, *place),)


def _inside(value: Any) -> Iterator[Place]:
    """Every field and entry within a value, the outer ones first."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in KEPT:
                yield (key,)
            if key != "status":
                yield from ((key, *place) for place in _inside(inner))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield (at,)
            yield from ((at, *place) for place in _inside(inner))


def without(case: Case, chosen: Sequence[Cut], token: str) -> Case:
    """The case under another token, without these things."""
    content: Any = {"objects": copy.deepcopy(list(case.objects)), "asked": copy.deepcopy(list(case.asked))}
    places = {place for cut in chosen for place in cut}
    # From the back, so that positions stay what they are; what stands in something cut is gone with it.
    for place in sorted(
        places, key=lambda place: [(isinstance(step, int), step) for step in place], reverse=True
    ):
        _remove(content, place)
    return Case(
        case.token, tuple(content["objects"]), tuple(content["asked"]), case.themes, case.origin
    ).renamed(token)


def _remove(content: Any, place: Place) -> None:
    *way, last = place
    for step in way:
        content = content[step]
    del content[last]


async def shrunk(question: Question, folder: Path) -> Question:
    """The smallest case found in which the pod is still judged differently, on a server of its own.

    The question itself, if both agree there: then something else on its server had a part in it.
    """
    with server.control_plane(folder) as cluster:
        async with server.client_of(cluster) as client:
            await server.create(client, server.furniture())
            trials = Trials(cluster, client)
            best = await trials.first_different(question.alone, [()])
            while best is not None and trials.rounds < ROUNDS_MAX:
                question = best
                best = await trials.smaller(question.alone)
            return question


class Trials:
    """Copies of a case put on one server, round by round."""

    def __init__(self, cluster: LocalCluster, client: Client) -> None:
        self.cluster = cluster
        self.client = client
        self.rounds = 0

    async def smaller(self, case: Case) -> Question | None:
        """The case without as much as can be left out at once; None if nothing can be."""
        singles = cuts(case)
        different = await self._different(case, [(cut,) for cut in singles])
        unneeded = [cut for cut, one in zip(singles, different, strict=True) if one is not None]
        if not unneeded:
            return None
        counts = sorted({max(1, len(unneeded) // part) for part in (1, 2, 4, 8, len(unneeded))}, reverse=True)
        return await self.first_different(case, [tuple(unneeded[:count]) for count in counts])

    async def first_different(self, case: Case, chosen: Sequence[Chosen]) -> Question | None:
        """The first of these copies that is judged differently."""
        different = await self._different(case, chosen)
        return next((one for one in different if one is not None), None)

    async def _different(self, case: Case, chosen: Sequence[Chosen]) -> list[Question | None]:
        """For each copy what was said of its pod, None where both agree or it cannot be."""
        self.rounds += 1
        copies = [without(case, cuts, f"case-{self.rounds}x{number}") for number, cuts in enumerate(chosen)]
        refused: set[str] = set()
        for part in ("objects", "asked"):
            alive = [one for one in copies if one.token not in refused]
            manifests = [manifest for one in alive for manifest in getattr(one, part)]
            for refusal in await server.create_what_can_be(self.client, manifests):
                refused.update(TOKEN.findall(str(refusal.manifest)))
        alive = [one for one in copies if one.token not in refused]
        await server.settle(self.client, alive)
        asked = {one.case.token: one for one in await compare(self.cluster, self.client, alive)}
        found = (asked.get(one.token) for one in copies)
        return [one if one is not None and _counts(one) else None for one in found]


def _counts(question: Question) -> bool:
    """True if both say different things, and the pod still asks for its own case's nodes only."""
    return not question.agreed and question.theirs.feasible <= question.case.nodes
