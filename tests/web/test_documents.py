"""The documents of the wire: the samples are what the structs say, and every field of a row can be absent."""

from pathlib import Path

import msgspec
import pytest

from gpufleet.explain.answer import Answer
from gpufleet.web import documents
from gpufleet.whatif.answer import Answer as Plan
from tests.web.sample_fleet import SAMPLES, SampleFleet, samples, view_events

ROWS = {
    "fleet": documents.FleetRow,
    "nodes": documents.NodeRow,
    "queues": documents.QueueRow,
    "work": documents.WorkRow,
    "decisions": documents.DecisionRow,
}
DOCUMENTS = {
    "source": documents.Source,
    "source-away": documents.Source,
    "heartbeat": documents.Heartbeat,
    "about": documents.About,
    "about-in-cluster": documents.About,
    "refusal": documents.Refusal,
    "work-waits": documents.WorkDocument,
    "work-runs": documents.WorkDocument,
    "node": documents.NodeDocument,
    "plan": Plan,
    "problems": documents.ProblemsDocument,
    "projects": documents.ProjectsDocument,
    "use": documents.FleetUseDocument,
}


@pytest.mark.parametrize("name", sorted(samples(10)))
def test_a_sample_in_the_repository_is_what_the_generator_makes(name: str) -> None:
    written = (SAMPLES / f"{name}.json").read_bytes()
    assert msgspec.json.decode(written) == msgspec.json.decode(msgspec.json.encode(samples(10)[name]))


def test_every_sample_in_the_repository_is_made_by_the_generator() -> None:
    assert {Path(one).stem for one in SAMPLES.iterdir()} == set(samples(10))


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_a_sample_reads_as_its_struct(name: str) -> None:
    msgspec.json.decode((SAMPLES / f"{name}.json").read_bytes(), type=DOCUMENTS[name])


@pytest.mark.parametrize("view", documents.VIEWS)
def test_rows_of_a_sample_read_as_their_struct_and_have_keys_of_their_own(view: str) -> None:
    event = msgspec.json.decode((SAMPLES / f"view-{view}.json").read_bytes(), type=documents.ViewEvent)
    rows = [msgspec.json.decode(row, type=ROWS[view]) for row in event.rows]
    keys = [row.key for row in rows]
    assert keys
    assert len(set(keys)) == len(keys)


def test_ten_thousand_nodes_are_ten_thousand_rows() -> None:
    assert len(view_events(SampleFleet(10_000))["nodes"].rows) == 10_000


def test_what_is_unknown_is_absent_and_is_not_nought() -> None:
    row = msgspec.json.decode(msgspec.json.encode(documents.NodeRow("gpu-1", "?")))
    assert row == {"key": "gpu-1", "state": "?"}
    assert documents.NodeRow("gpu-1", "?").gpus is None


def test_an_explanation_is_that_of_explain() -> None:
    document = msgspec.json.decode((SAMPLES / "work-waits.json").read_bytes())
    msgspec.convert(document["explanation"], Answer)
