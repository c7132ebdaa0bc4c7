"""The index of sizes agrees with all reports, whatever comes, changes and goes."""

from random import Random

from gpufleet.cluster.pods.data_sizes import DataSizes
from gpufleet.cluster.watching.picture import Picture
from gpufleet.kube import resources
from gpufleet.kube.objects.node_data import NodeData
from gpufleet.model.data import DataAsk
from tests.kube.wire_objects import decoded

NODES, NAMES, REVISIONS = ("a", "b", "c", "d"), ("x", "y"), ("r1", "r2")


def report(random: Random, node: str) -> NodeData:
    """A report with some copies, of which some are not complete."""
    entries = [
        {
            "kind": "model",
            "name": random.choice(NAMES),
            "revision": random.choice(REVISIONS),
            "bytes": random.randrange(1, 9),
            "complete": random.random() < 0.7,
            "folder": "/data",
        }
        for _ in range(random.randrange(4))
    ]
    made: NodeData = decoded({"metadata": {"name": node}, "spec": {"entries": entries}}, NodeData)
    return made


def by_hand(picture: Picture, name: str, revision: str) -> int | None:
    """The largest complete copy, looked for in all reports."""
    sizes = [
        one.size_bytes
        for found in picture.all(resources.NODE_DATA)
        for one in found.spec.entries
        if one.complete and one.name == name and revision in ("", one.revision)
    ]
    return max(sizes, default=None)


def test_the_index_says_what_all_reports_say() -> None:
    random, picture = Random(1), Picture()
    sizes = DataSizes(picture)
    reports = picture.objects.setdefault(resources.NODE_DATA, {})
    found = set()
    for _ in range(500):
        node = random.choice(NODES)
        if random.random() < 0.3:
            reports.pop(("", node), None)
        else:
            reports["", node] = report(random, node)
        sizes.hear(node)
        for name in NAMES:
            for revision in ("", *REVISIONS):
                expected = by_hand(picture, name, revision)
                found.add(expected)
                assert sizes.largest(DataAsk(f"model/{name}", revision)) == expected
    assert found == {None, *range(1, 9)}
