"""Definitions of the release before: what they stored, this release reads whole."""

import tarfile
from typing import Any

import msgspec
import pytest

from gpufleet.kube.definition_skew import missing_in
from gpufleet.kube.manifests import definitions
from tests.chart.chart_before import ARCHIVE

Object = dict[str, Any]
NOW = {one["metadata"]["name"]: one for one in definitions()}


def before() -> dict[str, Object]:
    """The definitions in the package of the release before, by their names."""
    found: dict[str, Object] = {}
    with tarfile.open(ARCHIVE) as opened:
        for name in opened.getnames():
            content = opened.extractfile(name)
            if "/files/" in name and content is not None:
                documents = content.read().decode().split("\n---\n")
                objects = [msgspec.yaml.decode(one) for one in documents]
                found |= {
                    one["metadata"]["name"]: one
                    for one in objects
                    if one and one["kind"] == "CustomResourceDefinition"
                }
    return found


def versions(definition: Object) -> dict[str, Object]:
    return {one["name"]: one for one in definition["spec"]["versions"]}


@pytest.mark.parametrize("name", sorted(before()))
def test_no_version_that_may_be_stored_is_dropped(name: str) -> None:
    """The API server refuses a definition without a version that it stored objects in."""
    assert versions(before()[name]).keys() <= versions(NOW[name]).keys()
    assert [one["name"] for one in versions(NOW[name]).values() if one["storage"]] != []


@pytest.mark.parametrize("name", sorted(before()))
def test_no_field_of_before_is_dropped(name: str) -> None:
    now = versions(NOW[name])
    for version, old in versions(before()[name]).items():
        schema = old["schema"]["openAPIV3Schema"]
        assert list(missing_in(schema, now[version]["schema"]["openAPIV3Schema"])) == []


def test_every_version_has_one_storage_and_is_served() -> None:
    for one in NOW.values():
        assert [its["storage"] for its in one["spec"]["versions"]].count(True) == 1
        assert all(its["served"] for its in one["spec"]["versions"])
