"""The report in each form that programs read.

SARIF is held to those parts of the standard's schema that our logs use, written out here with no other
property allowed: section 3 of SARIF 2.1.0, by the names of its objects. Where a copy of the standard's
sarif-schema-2.1.0.json is named in ``GPUFLEET_SARIF_SCHEMA``, they are held to all of it.
"""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from gpufleet.lint.findings import FindingKind, Report, Suppressed, Unknown
from gpufleet.lint.outputs.annotations import as_annotations
from gpufleet.lint.outputs.junit import as_junit
from gpufleet.lint.outputs.sarif import as_sarif
from tests.lint.linting import pod, report_of

TEXT = {"type": "string"}
LINE = {"type": "integer", "minimum": 1}


def closed(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


def listed(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


MESSAGE = closed(["text"], text=TEXT)
LOCATION = closed(
    [],
    physicalLocation=closed(
        ["artifactLocation"],
        artifactLocation=closed([], uri={"type": "string", "format": "uri-reference"}),
        region=closed([], startLine=LINE, startColumn=LINE),
    ),
)
LEVEL = {"enum": ["none", "note", "warning", "error"]}
DESCRIPTOR = closed(
    ["id"], id=TEXT, shortDescription=MESSAGE, help=MESSAGE, defaultConfiguration=closed([], level=LEVEL)
)
RESULT = closed(
    ["message"],
    ruleId=TEXT,
    ruleIndex={"type": "integer", "minimum": -1},
    kind={"enum": ["notApplicable", "pass", "fail", "review", "open", "informational"]},
    level=LEVEL,
    message=MESSAGE,
    locations=listed(LOCATION),
    partialFingerprints={"type": "object", "additionalProperties": TEXT},
    suppressions=listed(closed(["kind"], kind={"enum": ["inSource", "external"]}, justification=TEXT)),
)
RUN = closed(
    ["tool"],
    tool=closed(["driver"], driver=closed(["name"], name=TEXT, version=TEXT, rules=listed(DESCRIPTOR))),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    invocations=listed(
        closed(
            ["executionSuccessful"],
            executionSuccessful={"type": "boolean"},
            toolExecutionNotifications=listed(
                closed(["message"], level=LEVEL, message=MESSAGE, locations=listed(LOCATION))
            ),
        )
    ),
    results=listed(RESULT),
)
SARIF = closed(
    ["version", "runs"],
    **{"$schema": {"type": "string", "format": "uri"}, "version": {"enum": ["2.1.0"]}, "runs": listed(RUN)},
)


def report() -> Report:
    """A finding, a suppressed one, one that is not judged, and malformed input."""
    found = report_of(pod("image: nvidia/cuda", limits="nvidia.com/gpu: many"), "a: [")
    first, second = found.findings
    unknown = Unknown(first.rule, "0.yaml", first.position, first.object, "a cluster")
    accepted = Suppressed(second, "tried", FindingKind.IN_SOURCE)
    return replace(found, findings=(first,), suppressed=(accepted,), unjudged=(unknown,))


def test_sarif_is_valid_and_complete() -> None:
    log = json.loads(as_sarif(report()))
    jsonschema.Draft7Validator(SARIF, format_checker=jsonschema.FormatChecker()).validate(log)
    (run,) = log["runs"]
    assert [(one["ruleId"], one["kind"], one["level"]) for one in run["results"]] == [
        ("GPU011", "fail", "warning"),
        ("GPU002", "fail", "error"),
        ("GPU011", "open", "none"),
    ]
    assert run["results"][1]["suppressions"] == [{"kind": "inSource", "justification": "tried"}]
    rules = run["tool"]["driver"]["rules"]
    assert all(rules[one["ruleIndex"]]["id"] == one["ruleId"] for one in run["results"])
    region = run["results"][0]["locations"][0]["physicalLocation"]["region"]
    assert region == {"startLine": 8, "startColumn": 7}
    assert run["invocations"][0]["executionSuccessful"] is False


def test_sarif_is_valid_by_the_published_schema() -> None:
    told = os.environ.get("GPUFLEET_SARIF_SCHEMA")
    if told is None:
        pytest.skip("GPUFLEET_SARIF_SCHEMA names no copy of sarif-schema-2.1.0.json")
    schema = json.loads(Path(told).read_bytes())
    assert schema["$id"].endswith("/sarif-schema-2.1.0.json")
    validator = jsonschema.Draft7Validator(schema, format_checker=jsonschema.FormatChecker())
    validator.validate(json.loads(as_sarif(report())))


def test_junit_counts_what_it_shows() -> None:
    root = ET.fromstring(as_junit(report()))  # noqa: S314  our own text
    assert {name: root.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "3",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
    }
    (failure,) = root.iter("failure")
    assert failure.get("message") == "image nvidia/cuda of container main has no tag"


def test_junit_says_of_a_clean_file_that_it_is() -> None:
    root = ET.fromstring(as_junit(report_of(pod("image: a:1"))))  # noqa: S314  our own text
    assert (root.get("failures"), root.get("errors")) == ("0", "0")


def test_junit_is_xml_whatever_the_names() -> None:
    text = pod("image: nvidia/cuda").replace("name: one", 'name: "a\\x01<b>&\\uD800"')
    ET.fromstring(as_junit(report_of(text)))  # noqa: S314  our own text


def test_annotations_stand_at_their_line_and_on_one() -> None:
    text = as_annotations(report())
    assert text.splitlines() == [
        (
            "::warning file=0.yaml,line=8,col=7,title=GPU011 GPU image without a version::Pod one: image "
            "nvidia/cuda of container main has no tag%0Apin a version, and its digest, "
            "that fits the driver of the nodes"
        ),
        (
            "::error file=1.yaml,line=1,col=5,title=malformed::not YAML: while parsing a flow node, "
            "did not find expected node content"
        ),
    ]
