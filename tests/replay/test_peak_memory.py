"""The peak of a run is its own, not that of what ran before it in the same process."""

import subprocess
import sys

import pytest

STORY = """
from gpufleet.replay.peak_memory import forget_peak, peak_rss_mib

forget_peak()
before = peak_rss_mib()
block = bytearray(200 * 1024 * 1024)
block[::4096] = b"x" * len(block[::4096])
with_block = peak_rss_mib()
del block
still = peak_rss_mib()
forget_peak()
print(before, with_block, still, peak_rss_mib())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems tell only the peak of a process")
def test_peak_is_kept_until_it_is_forgotten() -> None:
    ran = subprocess.run([sys.executable, "-c", STORY], capture_output=True, text=True, check=True)
    before, with_block, still, after = map(float, ran.stdout.split())
    assert 199 < with_block - before < 210
    assert abs(still - with_block) < 1
    assert after < before + 10
