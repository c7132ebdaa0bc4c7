"""What is excused is what the documentation says, by name."""

from tests.differential.differences import DIFFERENCES, documented


def test_every_excuse_is_documented_and_every_documented_one_is_known() -> None:
    assert documented() == DIFFERENCES.keys()
