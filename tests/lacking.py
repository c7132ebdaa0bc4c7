"""What a test does without a program that it needs: skip on a person's machine, fail in CI."""

import os
from typing import NoReturn

import pytest


def lacking(reason: str) -> NoReturn:
    """End the test with what is missing and how to get it."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
