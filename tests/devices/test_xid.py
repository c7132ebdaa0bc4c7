"""What follows from an Xid, against the maker's catalogue and the device plugin's list."""

import pytest

from gpufleet.devices.xid import CATALOGUE, XidAction, xid

# The codes that NVIDIA's device plugin blames on the program (its health check, v0.20.0), less 65, which the
# catalogue calls unused, and 109, for which it asks for a reset.
OF_THE_PROGRAM = (13, 31, 43, 45, 68)


@pytest.mark.parametrize("code", OF_THE_PROGRAM)
def test_a_fault_of_the_program_leaves_the_card_in_service(code: int) -> None:
    assert xid(code).action in (XidAction.NOTHING, XidAction.POD)


@pytest.mark.parametrize(
    ("code", "action"),
    [
        (79, XidAction.GONE),
        (48, XidAction.RESET),
        (95, XidAction.RESET),
        (64, XidAction.RESET),
        (119, XidAction.RESET),
        (94, XidAction.POD),
        (63, XidAction.NOTHING),
        (154, XidAction.NOTHING),
        (65, XidAction.QUIET),
        (9999, XidAction.QUIET),
    ],
)
def test_each_kind_has_its_own_action(code: int, action: XidAction) -> None:
    assert xid(code).action is action


def test_every_row_is_of_one_code_and_says_something() -> None:
    assert all(row.code == code and row.meaning for code, row in CATALOGUE.items())
    assert set(CATALOGUE) <= set(range(1, 173))


@pytest.mark.parametrize(
    ("code", "engine"),
    [
        (70, "copy engine 3"),
        (72, "copy engine 5"),
        (75, "copy engine 6"),
        (77, "copy engine 8"),
        (85, "copy engine 9"),
        (126, "copy engine 10"),
        (135, "copy engine 19"),
        (83, "video decoder 1"),
        (84, "video decoder 2"),
        (88, "video decoder 3"),
        (89, "video decoder 4"),
        (96, "video decoder 5"),
        (98, "video decoder 7"),
        (99, "JPEG engine 1"),
        (105, "JPEG engine 7"),
    ],
)
def test_engines_are_numbered_as_in_the_catalogue(code: int, engine: str) -> None:
    assert xid(code).meaning.endswith(engine)
