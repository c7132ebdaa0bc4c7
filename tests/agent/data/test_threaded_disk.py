"""The cache in threads of its own, by the clock of the machine."""

import asyncio
from pathlib import Path

from gpufleet.agent.data.threaded_disk import ThreadedDisk
from gpufleet.kube.clock import MachineClock
from gpufleet.model.data import DataAsk
from tests.agent.data.test_copying import content, marked, only, whole


def test_a_copy_is_made_in_a_thread_and_says_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    wanted = marked(tmp_path / "store")
    disk = ThreadedDisk([tmp_path / "store"], tmp_path / "cache", 1e9, MachineClock())
    asks = [DataAsk("dataset/own/set")]

    async def story() -> int:
        await disk.note_named(asks, frozenset(asks))
        found = await disk.lacking(asks)
        assert found.entries == (wanted,)
        assert await disk.make_room(wanted, asks) == []
        copied = await disk.copy(wanted, lambda: True)
        await disk.tidy([])
        return copied

    # 5,000 and 300 bytes, as the store's files are made.
    assert asyncio.run(story()) == 5_300
    assert content(only(tmp_path / "cache")) == content(wanted)
    assert len(whole(tmp_path / "cache")) == 1
