"""The generated messages are those of the .proto files beside them."""

from pathlib import Path

import grpc_tools
import pytest
from grpc_tools import protoc

from tests.conventions.project import ROOT

SOURCE = ROOT / "src"
PROTOS = sorted((SOURCE / "gpufleet" / "agent" / "kubelet" / "kubelet_api").glob("*.proto"))


@pytest.mark.parametrize("proto", PROTOS, ids=lambda path: path.stem)
def test_generated_code_is_up_to_date(proto: Path, tmp_path: Path) -> None:
    included = Path(grpc_tools.__file__).parent / "_proto"
    arguments = [f"-I{SOURCE}", f"-I{included}", f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    assert protoc.main(["protoc", *arguments, str(proto)]) == 0
    for suffix in ("_pb2.py", "_pb2.pyi"):
        made = tmp_path / proto.relative_to(SOURCE).parent / f"{proto.stem}{suffix}"
        kept = proto.with_name(f"{proto.stem}{suffix}")
        assert kept.read_text(encoding="utf-8") == made.read_text(encoding="utf-8"), "run `make protos`"
