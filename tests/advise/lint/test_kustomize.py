"""Patches of a Kustomization are told of and not judged as objects."""

from pathlib import Path

import pytest

from gpufleet.advise.lint.inputs import find_inputs
from gpufleet.advise.lint.kustomize import patches_of

KUSTOMIZATION = """
resources: [../base, extra.yaml]
patches:
  - path: gpus.yaml
  - target: {kind: Deployment}
    patch: |-
      - {op: replace, path: /spec/replicas, value: 3}
patchesJson6902:
  - {path: json.yaml, target: {version: v1, kind: Pod, name: one}}
patchesStrategicMerge:
  - more/merged.yaml
  - |-
    kind: Pod
    apiVersion: v1
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An overlay."""
    (tmp_path / "more").mkdir()
    (tmp_path / "kustomization.yaml").write_text(KUSTOMIZATION)
    for name in ("extra.yaml", "gpus.yaml", "json.yaml", "more/merged.yaml", "more/whole.yaml"):
        (tmp_path / name).write_text("apiVersion: v1\nkind: Pod\n")
    return tmp_path


def test_every_way_to_name_a_patch_is_known(folder: Path) -> None:
    named = {str(one.relative_to(folder.resolve())) for one in patches_of(folder)}
    assert named == {"gpus.yaml", "json.yaml", "more/merged.yaml"}


def test_patches_of_a_folder_are_left_out_and_told_of(folder: Path) -> None:
    found = find_inputs([str(folder)])
    names = {str(Path(one.name).relative_to(folder)) for one in found.sources}
    assert names == {"kustomization.yaml", "extra.yaml", "more/whole.yaml"}
    (notice,) = found.notices
    assert notice == (
        f"{folder}: patches are left out (gpus.yaml, json.yaml, merged.yaml): "
        f"gpufleet lint -k {folder} reads the whole"
    )


def test_a_patch_that_is_asked_for_by_name_is_read(folder: Path) -> None:
    patch = str(folder / "gpus.yaml")
    assert [one.name for one in find_inputs([patch]).sources] == [patch]


@pytest.mark.parametrize("content", [b"patches: 3", b"patches: [", b"\xff", b""])
def test_a_kustomization_that_means_nothing_has_no_patches(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "kustomization.yaml").write_bytes(content)
    assert patches_of(tmp_path) == frozenset()
