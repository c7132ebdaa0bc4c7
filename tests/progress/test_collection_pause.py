"""Python's collector while a command reads much: it stands still, and runs again afterwards."""

import gc

import pytest

from gpufleet.progress.collection_pause import without_collections


def test_no_collection_runs_inside_and_they_run_again_afterwards() -> None:
    assert gc.isenabled()
    with without_collections():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_they_run_again_after_a_failure() -> None:
    with pytest.raises(ZeroDivisionError), without_collections():
        _ = 1 // 0
    assert gc.isenabled()


def test_who_has_switched_them_off_keeps_them_off() -> None:
    gc.disable()
    try:
        with without_collections():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
