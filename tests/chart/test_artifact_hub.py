"""What the chart tells Artifact Hub about itself is so."""

from typing import Any

import msgspec
import pytest

from gpufleet import __version__
from image.architecture import ARCHITECTURES
from tests.chart.rendering import CHART, FULL_VALUES, pod_specs, rendered

PREFIX = "artifacthub.io/"
KINDS = {"added", "changed", "deprecated", "removed", "fixed", "security"}
"""Of changes, as Artifact Hub knows them."""


@pytest.fixture(scope="module")
def told() -> dict[str, str]:
    """The annotations, by their names there."""
    chart = msgspec.yaml.decode((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    return {name.removeprefix(PREFIX): text for name, text in chart["annotations"].items()}


def listed(text: str) -> list[dict[str, Any]]:
    """A list that stands as text in an annotation."""
    found: list[dict[str, Any]] = msgspec.yaml.decode(text)
    return found


def test_the_definitions_are_those_that_it_brings(told: dict[str, str]) -> None:
    definitions = [its for its in rendered() if its["kind"] == "CustomResourceDefinition"]
    expected = [
        (its["spec"]["names"]["kind"], its["metadata"]["name"], version["name"])
        for its in definitions
        for version in its["spec"]["versions"]
    ]
    assert [(one["kind"], one["name"], one["version"]) for one in listed(told["crds"])] == expected


def test_every_image_that_is_started_is_in_the_list(told: dict[str, str]) -> None:
    """With everything on, and so that an air-gapped site copies what is listed and no more."""
    values = msgspec.yaml.decode(FULL_VALUES.read_text(encoding="utf-8"))
    own = msgspec.yaml.decode((CHART / "values.yaml").read_text(encoding="utf-8"))["image"]
    specs = pod_specs(rendered({**values, "image": own, "web": {**values["web"], "extraContainers": []}}))
    assert len(specs) >= 7
    started = {
        container["image"]
        for spec in specs.values()
        for container in (*spec["containers"], *spec.get("initContainers", ()))
    }
    assert {one["image"] for one in listed(told["images"])} == started
    (image,) = started
    assert image.endswith(f":{__version__}")


def test_it_is_for_the_machines_that_images_are_built_for(told: dict[str, str]) -> None:
    (image,) = listed(told["images"])
    assert set(image["platforms"]) == {f"linux/{name}" for name in ARCHITECTURES}


def test_each_example_is_one_that_a_server_would_take(told: dict[str, str]) -> None:
    definitions = {
        its["spec"]["names"]["kind"]: its["spec"]
        for its in rendered()
        if its["kind"] == "CustomResourceDefinition"
    }
    examples = {its["kind"]: its for its in listed(told["crdsExamples"])}
    assert examples.keys() == definitions.keys()
    for kind, example in examples.items():
        (version,) = definitions[kind]["versions"]
        assert unlike(example["spec"], version["schema"]["openAPIV3Schema"]["properties"]["spec"]) == []


def unlike(value: object, schema: dict[str, Any], path: str = "spec") -> list[str]:
    """Where a value is not as a schema says: unknown or missing fields, words that are none of its."""
    match value:
        case dict() if "properties" not in schema:
            # A map with keys of the user's own.
            return [
                wrong for its in value.values() for wrong in unlike(its, schema["additionalProperties"], path)
            ]
        case dict():
            missing = [f"{path}.{name}" for name in schema.get("required", ()) if name not in value]
            unknown = [f"{path}.{name}" for name in value if name not in schema["properties"]]
            known = [(name, its) for name, its in value.items() if name in schema["properties"]]
            within = [unlike(its, schema["properties"][name], f"{path}.{name}") for name, its in known]
            return sum(within, missing + unknown)
        case list():
            return [wrong for its in value for wrong in unlike(its, schema["items"], path)]
        case _:
            return [] if value in schema.get("enum", [value]) else [path]


def test_changes_and_flags_are_of_the_kinds_that_it_knows(told: dict[str, str]) -> None:
    assert {one["kind"] for one in listed(told["changes"])} <= KINDS
    assert told["operator"] == "false"
    assert told["prerelease"] == str(__version__.startswith("0.")).lower()
    assert told["license"] == "Apache-2.0"
