"""CDI files as runtimes load them, whole or not there."""

import json
from pathlib import Path

import pytest

from gpufleet.agent.device_plugin.cdi import (
    CdiDevice,
    CdiEdits,
    CdiMount,
    CdiNode,
    CdiSpec,
    environment,
    qualified,
    read_spec,
    remove_spec,
    spec_names,
    write_spec,
)
from gpufleet.model.model_errors import InternalError

NODE = CdiNode("/dev/nvidia0", host_path="/dev/null", permissions="rw")
SPEC = CdiSpec(
    "gpufleet.io/gpu",
    (CdiDevice("GPU-5b7c", CdiEdits(environment({"B": "2", "A": "1"}), (NODE,))),),
    CdiEdits(mounts=(CdiMount("/usr/bin/nvidia-smi", "/usr/bin/nvidia-smi", ("ro",)),)),
)


def test_a_file_has_the_fields_of_the_specification(tmp_path: Path) -> None:
    write_spec(tmp_path / "cdi", "gpufleet.io-gpu", SPEC)
    written = tmp_path / "cdi" / "gpufleet.io-gpu.json"
    assert json.loads(written.read_text(encoding="utf-8")) == {
        "cdiVersion": "0.5.0",
        "kind": "gpufleet.io/gpu",
        "devices": [
            {
                "name": "GPU-5b7c",
                "containerEdits": {
                    "env": ["A=1", "B=2"],
                    "deviceNodes": [{"path": "/dev/nvidia0", "hostPath": "/dev/null", "permissions": "rw"}],
                },
            }
        ],
        "containerEdits": {
            "mounts": [
                {"hostPath": "/usr/bin/nvidia-smi", "containerPath": "/usr/bin/nvidia-smi", "options": ["ro"]}
            ]
        },
    }
    assert written.stat().st_mode & 0o777 == 0o644
    assert [path.name for path in written.parent.iterdir()] == ["gpufleet.io-gpu.json"]


def test_what_is_written_is_read_again_and_removed(tmp_path: Path) -> None:
    write_spec(tmp_path, "gpufleet.io-gpu", SPEC)
    assert read_spec(tmp_path, "gpufleet.io-gpu") == SPEC
    assert list(spec_names(tmp_path, "gpufleet.io-")) == ["gpufleet.io-gpu"]
    remove_spec(tmp_path, "gpufleet.io-gpu")
    remove_spec(tmp_path, "gpufleet.io-gpu")
    assert read_spec(tmp_path, "gpufleet.io-gpu") is None
    assert list(spec_names(tmp_path / "absent", "gpufleet.io-")) == []


@pytest.mark.parametrize("bytes_", [b"", b"{", b"[]", b'{"kind": 7}', b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_none(tmp_path: Path, bytes_: bytes) -> None:
    (tmp_path / "ours.json").write_bytes(bytes_)
    assert read_spec(tmp_path, "ours") is None


def test_a_link_in_place_of_a_file_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("kept", encoding="utf-8")
    (tmp_path / ".ours.json.new").symlink_to(elsewhere)
    with pytest.raises(OSError, match="symbolic links"):
        write_spec(tmp_path, "ours", SPEC)
    assert elsewhere.read_text(encoding="utf-8") == "kept"


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "a\nb"])
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(InternalError):
        write_spec(tmp_path, name, SPEC)


@pytest.mark.parametrize("device", ["", "-a", "a/b", "a b", "ü"])
def test_names_that_no_runtime_would_load_are_bugs_of_ours(tmp_path: Path, device: str) -> None:
    with pytest.raises(InternalError):
        write_spec(tmp_path, "ours", CdiSpec("gpufleet.io/gpu", (CdiDevice(device),)))


def test_edits_are_joined_with_each_node_once() -> None:
    joined = CdiEdits(("A=1",), (NODE,)).and_then(CdiEdits(("B=2",), (NODE,)))
    assert joined == CdiEdits(("A=1", "B=2"), (NODE,))


def test_a_container_names_a_device_by_kind_and_name() -> None:
    assert qualified("gpufleet.io/share", "0f") == "gpufleet.io/share=0f"
