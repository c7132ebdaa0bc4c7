"""Malformed and unusual trace files, each with its verdict beside it in ``verdicts.json``.

The numbers are those of the project's list of malformed inputs; 0 marks cases beyond that list.
"""

import json
from typing import Any

import pytest

from gpufleet.replay.replay_errors import BadRowsError, TraceError
from gpufleet.replay.trace_nodes import read_nodes
from gpufleet.replay.trace_tasks import read_tasks
from tests.replay.trace_files import CORPUS, MODELS, flat_node, flat_task

VERDICTS: list[dict[str, Any]] = json.loads((CORPUS / "verdicts.json").read_text(encoding="utf-8"))
TAKEN = [verdict for verdict in VERDICTS if verdict["verdict"] != "refused"]
REFUSED = [verdict for verdict in VERDICTS if verdict["verdict"] == "refused"]


def file_name(verdict: dict[str, Any]) -> str:
    return str(verdict["file"])


def read(verdict: dict[str, Any]) -> list[dict[str, Any]]:
    path = CORPUS / verdict["file"]
    if verdict["kind"] == "nodes":
        return [flat_node(node) for node in read_nodes(path).nodes]
    return [flat_task(task) for task in read_tasks(path, MODELS).tasks]


@pytest.mark.parametrize("verdict", TAKEN, ids=file_name)
def test_taken_files_mean_what_the_verdict_says(verdict: dict[str, Any]) -> None:
    rows = read(verdict)
    assert len(rows) == len(verdict["parsed"])
    for row, expected in zip(rows, verdict["parsed"], strict=True):
        assert {key: row[key] for key in expected} == expected


@pytest.mark.parametrize("verdict", REFUSED, ids=file_name)
def test_refused_files_say_where_and_why(verdict: dict[str, Any]) -> None:
    with pytest.raises(TraceError) as caught:
        read(verdict)
    message = str(caught.value)
    assert verdict["words"]
    assert not [words for words in verdict["words"] if words not in message], message
    assert verdict["file"] in message
    assert caught.value.file.endswith(verdict["file"])
    assert (caught.value.row, caught.value.column) == (verdict["row"], verdict["column"])
    if verdict["row"] is not None:
        assert f"row {verdict['row']}" in message
    lines = 1 if not isinstance(caught.value, BadRowsError) else 1 + len(caught.value.shown)
    assert message.isascii()
    assert len(message.splitlines()) == lines


def test_every_file_of_the_corpus_has_one_verdict() -> None:
    files = sorted(path.name for path in CORPUS.iterdir() if path.suffix in {".csv", ".gz", ".parquet"})
    assert sorted(map(file_name, VERDICTS)) == files
    assert {verdict["verdict"] for verdict in VERDICTS} == {"accepted", "normalised", "refused"}


@pytest.mark.parametrize("number", [53, 54, 55, 56, 57, 58, 60])
def test_every_input_of_the_list_is_in_the_corpus(number: int) -> None:
    assert any(verdict["input"] == number for verdict in VERDICTS)
