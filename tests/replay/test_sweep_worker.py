"""A worker whose parent is gone ends, even if Python loses a request to do so."""

import multiprocessing
import os
import signal
import time
from types import SimpleNamespace

import pytest

from gpufleet.replay import sweep_worker


def test_a_worker_whose_parent_is_gone_asks_itself_again_and_then_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[int, int]] = []

    def end(code: int) -> None:
        raise SystemExit(code)

    reader, writer = os.pipe()
    os.close(writer)
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: SimpleNamespace(sentinel=reader))
    monkeypatch.setattr(os, "kill", lambda process, number: asked.append((process, number)))
    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    try:
        with pytest.raises(SystemExit):
            sweep_worker.end_with_parent()
    finally:
        os.close(reader)
    assert asked == [(os.getpid(), signal.SIGTERM)] * sweep_worker.REQUESTS_TO_END
