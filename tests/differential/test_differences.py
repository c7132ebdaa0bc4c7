"""What is excused is what the documentation says, by name."""

from tests.differential.differences import DIFFERENCES, documented
from tests.differential.preemption import differences as preemption


def test_every_excuse_is_documented_and_every_documented_one_is_known() -> None:
    assert documented() == DIFFERENCES.keys() | preemption.DIFFERENCES.keys()
    assert DIFFERENCES.keys().isdisjoint(preemption.DIFFERENCES)
