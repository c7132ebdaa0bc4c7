"""The kubelet's record tells pods, containers, units and our own answers."""

import json
from pathlib import Path

import pytest

from gpufleet.agent.kubelet.kubelet_checkpoint import (
    FILE,
    CheckpointEntry,
    decode_checkpoint,
    read_checkpoint,
)
from gpufleet.agent.state.state_errors import KubeletError
from tests.agent.kubelet_record import record_bytes, write_record
from tests.agent.node_values import SHARE

ENTRY = CheckpointEntry("uid-1", "main", SHARE, frozenset({"share-3"}), ("gpufleet.io/share=0f",))


def test_entries_come_back_with_the_names_that_we_answered(tmp_path: Path) -> None:
    write_record(tmp_path, ENTRY)
    assert read_checkpoint(tmp_path) == (ENTRY,)


def test_units_of_several_numa_nodes_are_one_set() -> None:
    file = json.loads(record_bytes(ENTRY))
    file["Data"]["PodDeviceEntries"][0]["DeviceIDs"] = {"0": ["a", "b"], "1": ["b", "c"], "2": None}
    assert decode_checkpoint(json.dumps(file).encode())[0].units == {"a", "b", "c"}


def test_a_kubelet_that_gave_nothing_yet_has_no_entries(tmp_path: Path) -> None:
    assert read_checkpoint(tmp_path) == ()
    write_record(tmp_path)
    assert read_checkpoint(tmp_path) == ()


@pytest.mark.parametrize("change", [slice(0), slice(-1), slice(40)])
def test_a_record_that_is_cut_is_not_believed_in_part(tmp_path: Path, change: slice) -> None:
    (tmp_path / FILE).write_bytes(record_bytes(ENTRY)[change])
    with pytest.raises(KubeletError, match="cannot be understood"):
        read_checkpoint(tmp_path)


def test_an_answer_that_is_no_message_is_told() -> None:
    file = json.loads(record_bytes(ENTRY))
    file["Data"]["PodDeviceEntries"][0]["AllocResp"] = "////"
    with pytest.raises(KubeletError, match="cannot be understood"):
        decode_checkpoint(json.dumps(file).encode())


def test_a_folder_in_its_place_is_told(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    with pytest.raises(KubeletError, match="cannot be read"):
        read_checkpoint(tmp_path)
