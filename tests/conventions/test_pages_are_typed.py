"""A command that a page shows is typed by a test, or stands in the short list of those that none can type."""

import re

import pytest

from tests.conventions.pages import steps
from tests.conventions.project import ROOT, documents, name
from tests.conventions.untyped import TYPED, UNTYPED

COMMANDS = {name(page): [command for command, _ in steps(page)] for page in documents()}
OTHER_SHELL_BLOCK = re.compile(r"^ *```(sh|bash|shell)\b", re.MULTILINE)


@pytest.mark.parametrize("page", [page for page, commands in COMMANDS.items() if commands])
def test_a_command_of_a_page_is_typed_by_a_test_or_has_a_reason_not_to_be(page: str) -> None:
    left = [command for command in COMMANDS[page] if command not in UNTYPED.get(page, {})]
    assert page in TYPED or not left, f"{page}: no test types {left}"
    assert page not in TYPED or left, f"{page}: all its commands are left out, so no test types it"


@pytest.mark.parametrize(("page", "test"), TYPED.items())
def test_the_test_that_types_a_page_names_it(page: str, test: str) -> None:
    assert page.rpartition("/")[2] in (ROOT / test).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", UNTYPED)
def test_a_command_that_is_left_out_stands_on_its_page(page: str) -> None:
    gone = [command for command in UNTYPED[page] if command not in COMMANDS[page]]
    assert gone == []


@pytest.mark.parametrize("page", documents(), ids=name)
def test_commands_stand_in_blocks_of_one_kind(page: object) -> None:
    """A block of commands is ``console``, with a prompt: what is typed is told from what is printed."""
    assert not OTHER_SHELL_BLOCK.search((ROOT / str(page)).read_text(encoding="utf-8"))
