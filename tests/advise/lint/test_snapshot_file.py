"""A snapshot of a cluster tells lint what nodes and pods there are."""

import gzip
from pathlib import Path

import pytest

from gpufleet.advise.lint.command import read_cluster
from gpufleet.advise.lint.snapshot_file import snapshot_cluster
from gpufleet.cli.main import ExitCode, main
from gpufleet.model.model_errors import InputError
from tests.cluster.snapshots.small_snapshots import Fleet
from tests.lint.linting import pod

LABELS = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """A node with a GPU product in its labels, and a pod on it."""
    fleet = Fleet()
    fleet.node("n", gpus=4, labels=LABELS)
    fleet.pod("train", gpus=2, node="n")
    path = tmp_path / "snapshot.json"
    fleet.write(path)
    return path


def unpacked(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data


@pytest.mark.parametrize("packs", [False, True])
def test_its_nodes_and_pods_are_those_of_the_cluster(snapshot: Path, *, packs: bool) -> None:
    data = unpacked(snapshot)
    snapshot.write_bytes(gzip.compress(data, mtime=0) if packs else data)
    cluster = read_cluster(snapshot)
    (node,) = cluster.nodes
    assert (node.name, node.gpus, LABELS.items() <= node.labels.items()) == ("n", {"nvidia.com/gpu": 4}, True)
    assert [one.name for one in cluster.pods_on(node)] == ["train"]
    assert not cluster.knows("RuntimeClass")


def test_the_command_takes_it(snapshot: Path, tmp_path: Path) -> None:
    text = pod(spec="nodeSelector: {nvidia.com/gpu.product: Tesla-T4}")
    (tmp_path / "pod.yaml").write_text(text, encoding="utf-8")
    arguments = ["lint", str(tmp_path / "pod.yaml"), "--cluster", str(snapshot)]
    # GPU019 finds a selector that no node of the snapshot meets.
    assert main(arguments) == 1


def test_a_kind_that_could_not_be_listed_is_not_known() -> None:
    head = b'{"snapshot":"gpufleet.io/snapshot/v1","objects":{},"forbidden":["pods"]}\n'
    cluster = snapshot_cluster(head, "a")
    assert (cluster.knows("Node"), cluster.knows("Pod")) == (True, False)


@pytest.mark.parametrize(
    "data",
    [
        b'{"snapshot":',
        b'{"snapshot":"gpufleet.io/snapshot/v9","objects":{}}\n',
        b'{"snapshot":"gpufleet.io/snapshot/v1","objects":{"v1/Node":1}}\n',
        b'{"snapshot":"gpufleet.io/snapshot/v1","objects":{}}\n{"kind":',
        b"\x1f\x8bnot packed",
        gzip.compress(b"packed", mtime=0)[:-6],
    ],
)
def test_what_is_malformed_or_cut_off_is_told(data: bytes) -> None:
    with pytest.raises(InputError):
        snapshot_cluster(data, "a")


def test_a_packed_file_that_is_no_snapshot_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"kind: Node\n", mtime=0))
    assert main(["lint", "-", "--cluster", str(tmp_path / "a.gz")]) == ExitCode.BAD_INPUT
