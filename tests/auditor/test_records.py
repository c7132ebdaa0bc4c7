"""A record is read as it was written, one look at a cluster is judged, and the program says what it found."""

import copy
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.auditor.__main__ import FOUND, UNREADABLE, main
from gpufleet.auditor.audit import judge
from gpufleet.auditor.record import RecordError, Write, as_line, of_lines, of_objects
from tests.auditor.stories import Story, held, whole


def a_story(*, broken: bool) -> Story:
    story = Story()
    story.node("n", gpus=2)
    pods = [
        story.running(name, "n", whole("n-0" if broken else f"n-{number}"))
        for number, name in enumerate("ab")
    ]
    story.report("n", [one for number, pod in enumerate(pods) for one in held(pod, whole(f"n-{number}"))])
    return story


def test_a_record_survives_its_lines() -> None:
    writes = a_story(broken=True).writes
    assert list(of_lines(as_line(write) for write in writes)) == writes


@pytest.mark.parametrize(
    "line", ["{", "[]", "{}", '{"kind":"pods","value":null}', '{"kind":"pods","value":{}}']
)
def test_a_line_that_is_no_write_is_named(line: str) -> None:
    with pytest.raises(RecordError, match="line 2"):
        list(of_lines(["", line]))


KINDS = {"pods": "Pod", "nodes": "Node", "namespaces": "Namespace", "nodedevices": "NodeDevices"}


def a_list(story: Story) -> str:
    latest: dict[tuple[str, str], Write] = {}
    for write in story.writes:
        latest[write.kind, write.latest["metadata"]["name"]] = write
    items = [
        {"kind": KINDS[write.kind], **write.value} for write in latest.values() if write.value is not None
    ]
    return json.dumps({"kind": "List", "items": items})


@pytest.mark.parametrize("broken", [False, True])
def test_one_look_at_a_cluster_is_judged(broken: bool) -> None:
    objects = json.loads(a_list(a_story(broken=broken)))["items"]
    found = {finding.promise for finding in judge(of_objects(objects))}
    assert found == ({"I4"} if broken else set())


@pytest.mark.parametrize("broken", [False, True])
def test_the_program_tells_by_words_and_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], broken: bool
) -> None:
    file = tmp_path / "record.jsonl"
    file.write_text("\n".join(as_line(write) for write in a_story(broken=broken).writes), encoding="utf-8")
    assert main([str(file)]) == (FOUND if broken else 0)
    out = capsys.readouterr().out
    assert ("I1 at" in out) == broken
    assert "findings" in out


def test_the_program_reads_what_kubectl_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(a_list(a_story(broken=False))))
    assert main([]) == 0
    assert "0 findings" in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.StringIO("no record"))
    assert main([]) == UNREADABLE


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
FIELDS = ("spec", "status", "metadata.annotations", "metadata.labels", "spec.containers", "spec.devices",
          "spec.holders", "spec.quotas", "spec.namespaces", "spec.namespaceSelector", "spec.prices",
          "spec.localQueues", "status.conditions", "status.containerStatuses", "status.capacity")  # fmt: skip


@given(st.sampled_from(FIELDS), JSON, st.data())
def test_an_object_that_means_nothing_ends_no_judgement(path: str, value: Any, data: st.DataObject) -> None:
    story = a_story(broken=False)
    story.queue("q", gpus=1, namespaces=["space"])
    write = data.draw(st.sampled_from(story.writes))
    broken = copy.deepcopy(write.latest)
    *outer, last = path.split(".")
    inner = broken
    for key in outer:
        inner = inner.setdefault(key, {})
    inner[last] = value
    story.put(write.kind, broken)
    story.running("after", "n", whole("n-0"))
    assert isinstance(story.findings(), list)
