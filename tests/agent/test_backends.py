"""A simulated machine is read in our form or in another simulator's, whichever the file has."""

from pathlib import Path

import pytest

from gpufleet.agent.gpus.backends import read_machine


@pytest.mark.parametrize(
    ("text", "uuids"),
    [
        ("{gpuProduct: T4, gpuMemory: 15360, gpus: [{id: GPU-b}, {id: GPU-a}]}", ["GPU-b", "GPU-a"]),
        ("nodePools: {default: {gpuProduct: T4, gpuCount: 2}}", None),
        ("gpus: [{model: T4, count: 2}]", None),
    ],
    ids=["topology of a node", "topology of a cluster", "our own"],
)
def test_every_form_is_understood(tmp_path: Path, text: str, uuids: list[str] | None) -> None:
    file = tmp_path / "machine.yaml"
    file.write_text(text, encoding="utf-8")
    found = list(read_machine(file, "node-1", list, lambda: 0.0).gpus)
    assert len(found) == 2
    assert uuids in (None, found)
