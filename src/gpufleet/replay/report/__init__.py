"""The report of a replay: one HTML page that needs no network, and its charts as PNG files.

A sweep takes minutes and its numbers are argued about for weeks, so what it found must travel as a
file that opens anywhere. ``write`` holds the order of the work; ``gpufleet.replay.results`` is all
that is read.
"""

from gpufleet.replay.report.write import ReportFiles, write_report

__all__ = ["ReportFiles", "write_report"]
