"""The system's Chromium, driven by tests of what a person sees.

They need the ``playwright`` package and a ``chromium`` on the path; CI must have both, and elsewhere the
tests are skipped where one is missing.
"""

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(
    os.environ.get("CI") != "true" and (CHROMIUM is None or importlib.util.find_spec("playwright") is None),
    reason="chromium or playwright is not installed",
)


@contextmanager
def chromium() -> Iterator["Browser"]:
    """A browser without a window."""
    from playwright.sync_api import sync_playwright

    assert CHROMIUM is not None, "CI must have chromium"
    with sync_playwright() as playwright:
        # CI runs as root in a container, where Chromium cannot make its sandbox. Without a GPU, the process
        # that would draw with one only delays the first frame.
        arguments = ["--no-sandbox", "--disable-gpu"]
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield launched
        launched.close()
