"""A closed month never changes; what is known later is written into the next one, and sums are as known."""

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import pytest

from gpufleet.ledger import closed_months
from gpufleet.ledger.bills.bill_lines import Bill, BilledResource, BillLine
from gpufleet.ledger.bills.billed_hours import BILLED, WITHOUT_BILL, Division, divide
from gpufleet.ledger.buckets import Bucket
from gpufleet.ledger.charges import Charges
from gpufleet.ledger.closed_months import ClosedMonths, Correction
from gpufleet.ledger.cost_rows import PROVISIONAL, CostRow, hours_of, other_rows, rows_of
from gpufleet.ledger.costs import COLUMNS, Cost, cost_of
from gpufleet.ledger.interval_log import Intervals
from gpufleet.ledger.months import begin_us, end_us
from gpufleet.ledger.node_hour import NodeRecords
from gpufleet.ledger.price_book import PriceBook
from gpufleet.ledger.spans import Span
from gpufleet.model.model_errors import InputError
from tests.ledger.test_costs import CARDS, DAY, PODS, held, hours, node, price

DOLLAR = 1_000_000
BOOK = PriceBook([price(10 * DOLLAR, 8 * DOLLAR)])
OCTOBER = Span(begin_us("2024-10"), end_us("2024-10"))
MONTHS = Span(begin_us("2024-10"), end_us("2024-12"))

A_DAY = msgspec.structs.replace(node(held(0, DAY)), span=DAY, provider_id="aws:///a/i-1")
"""A node that was there for one day of October 2024: one of its two cards had a pod."""

MORE_SEEN = msgspec.structs.replace(node(held(0, DAY), held(1, hours(0, 6), CARDS[1])), span=DAY)
"""The same day, of which another pod became known."""


def division_of(*lines: BillLine) -> Division:
    return divide(Bill(lines, "USD"), [A_DAY], BOOK)


def billed(amount: int, begin: int, end: int) -> BillLine:
    return BillLine(BilledResource("i-1"), hours(begin, end), amount, "EC2")


def rows(
    records: NodeRecords = A_DAY, division: Division = WITHOUT_BILL, book: PriceBook = BOOK
) -> Iterator[CostRow]:
    pods = {pod.uid: pod for pod in PODS}
    for hour in hours_of(records, book, OCTOBER, division):
        yield from rows_of(hour, records.priced_as.gpu_model, pods)
    yield from other_rows(division, OCTOBER)


def close(
    folder: Path, month: str, of_month: Iterable[CostRow] = (), currency: str = "USD", **again: object
) -> tuple[Correction, ...]:
    """Corrections are named ``m10`` for October, and so on."""
    folder.mkdir(exist_ok=True)
    older = {f"2024-{name[1:]}": found for name, found in again.items()}
    return ClosedMonths(folder).close(month, "c-1", currency, of_month, older).corrections  # type: ignore[arg-type]


def answer(folder: Path, *by: str) -> Cost:
    months = ClosedMonths(folder)
    return Charges([months.path(month) for month in months.months()]).cost(MONTHS, by)


def amounts(found: Cost) -> dict[tuple[str | None, ...], tuple[int, int | None]]:
    """What is not nothing; a part that came and went is none."""
    known = {one.key: (one.quantity, one.amount_micro) for one in found.groups}
    return {key: one for key, one in known.items() if one[0] or one[1]}


def test_a_late_bill_by_hand(tmp_path: Path) -> None:
    """October is closed with 240 $ by prices; then a bill says 6 $ for one of its hours: 4 $ less."""
    close(tmp_path, "2024-10", rows())
    before = ClosedMonths(tmp_path).path("2024-10").read_bytes()
    (found,) = close(tmp_path, "2024-11", m10=rows(division=division_of(billed(6 * DOLLAR, 3, 4))))
    assert (found.month, found.before_micro, found.after_micro) == ("2024-10", 240 * DOLLAR, 236 * DOLLAR)
    assert ClosedMonths(tmp_path).path("2024-10").read_bytes() == before
    november = Charges([ClosedMonths(tmp_path).path("2024-11")])
    sums = amounts(november.cost(november.span, ("state", "bucket")))
    # Of 10 $ 4 were for each card and 1 for each half of the host; of 6 $ they are 2.40 and 0.60.
    assert sums == {
        ("correction", Bucket.UNMEASURED): (0, -1_600_000),
        ("correction", Bucket.IDLE_FREE): (0, -1_600_000),
        ("correction", "host"): (0, -400_000),
        ("correction", "host-idle"): (0, -400_000),
    }
    assert answer(tmp_path).total.amount_micro == 236 * DOLLAR


def test_whatever_becomes_known_all_months_together_are_what_is_known(tmp_path: Path) -> None:
    """Correction follows correction: another pod, a price for hours without one, and a bill."""
    gap = PriceBook([price(10 * DOLLAR, 8 * DOLLAR, hours(0, 20))])
    close(tmp_path, "2024-10", rows(book=gap))
    division = division_of(billed(7_000_003, 3, 9), billed(11, 20, 24))
    close(tmp_path, "2024-11", m10=rows(MORE_SEEN))
    close(tmp_path, "2024-12", m10=rows(MORE_SEEN, division))
    for by in [(), *((name,) for name in COLUMNS if name not in ("price", "state", "day"))]:
        found = answer_until(tmp_path, by)
        expected = cost_of(Intervals((MORE_SEEN,), PODS), BOOK, OCTOBER, by, division)
        assert amounts(found) == amounts(expected), by
        assert (found.total.unpriced, found.total.waste_micro) == (0, expected.total.waste_micro)


def answer_until(folder: Path, by: tuple[str, ...]) -> Cost:
    months = ClosedMonths(folder)
    charges = Charges([months.path(month) for month in months.months()])
    return charges.cost(charges.span, by)


def test_what_did_not_change_is_corrected_by_no_row(tmp_path: Path) -> None:
    division = division_of(billed(7_000_003, 3, 9))
    close(tmp_path, "2024-10", rows(division=division))
    (found,) = close(tmp_path, "2024-11", m10=rows(division=division))
    assert (found.rows, found.before_micro) == (0, found.after_micro)


def test_what_is_provisional_is_told(tmp_path: Path) -> None:
    found = ClosedMonths(tmp_path).close(
        "2024-10", "c-1", "USD", rows(division=division_of(billed(6 * DOLLAR, 3, 4))), {}
    )
    assert (found.amount_micro, found.provisional_micro) == (236 * DOLLAR, 230 * DOLLAR)
    states = {one.key: one.amount_micro for one in answer(tmp_path, "state").groups}
    assert states == {(PROVISIONAL,): 230 * DOLLAR, (BILLED,): 6 * DOLLAR}


def test_a_kill_at_any_write_leaves_nothing_that_the_next_run_does_not_mend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both writes of a close are broken off before and after; the folder is then as after one whole run."""
    whole = tmp_path / "whole"
    close(whole, "2024-10", rows())
    expected = {path.name: path.read_bytes() for path in whole.iterdir()}

    class Killed(BaseException):
        pass

    for name in ("write_whole", "write_checksum"):
        for is_after in (False, True):
            folder = tmp_path / f"{name}-{is_after}"
            real = getattr(closed_months, name)

            def dying(path: Path, content: bytes, real: object = real, is_after: bool = is_after) -> None:
                if is_after:
                    real(path, content)  # type: ignore[operator]
                raise Killed

            with monkeypatch.context() as patch:
                patch.setattr(closed_months, name, dying)
                with pytest.raises(Killed):
                    close(folder, "2024-10", rows())
            if "2024-10" not in ClosedMonths(folder).months():
                close(folder, "2024-10", rows())
            assert {path.name: path.read_bytes() for path in folder.iterdir()} == expected, (name, is_after)


def test_months_are_closed_once_and_in_order(tmp_path: Path) -> None:
    close(tmp_path, "2024-11")
    for month in ("2024-10", "2024-11"):
        with pytest.raises(InputError, match="2024-11 is closed"):
            close(tmp_path, month, rows())
    with pytest.raises(InputError, match="is not closed"):
        close(tmp_path, "2024-12", m10=rows())
    with pytest.raises(InputError, match="another cluster or currency"):
        close(tmp_path, "2024-12", currency="EUR")


def test_who_knows_less_than_before_corrects_nothing(tmp_path: Path) -> None:
    """A file that was forgotten must not take money back from those who held GPUs."""
    close(tmp_path, "2024-10", rows(division=division_of(billed(6 * DOLLAR, 3, 4))))
    with pytest.raises(InputError, match="know nothing of the node n in 2024-10"):
        close(tmp_path, "2024-11", m10=())
    unseen = msgspec.structs.replace(A_DAY, unseen=(hours(1, 2),))
    with pytest.raises(InputError, match="know less of 2024-10"):
        close(tmp_path, "2024-11", m10=rows(unseen))
    with pytest.raises(InputError, match="no --bill is for 2024-10"):
        close(tmp_path, "2024-11", m10=rows())
    assert ClosedMonths(tmp_path).months() == ["2024-10"]


def test_a_month_that_was_changed_is_refused(tmp_path: Path) -> None:
    close(tmp_path, "2024-10", rows())
    other = tmp_path / "other"
    close(other, "2024-10", rows(MORE_SEEN))
    path = ClosedMonths(tmp_path).path("2024-10")
    shutil.copyfile(ClosedMonths(other).path("2024-10"), path)
    with pytest.raises(InputError, match="was changed after it was sealed"):
        Charges([path])
    with pytest.raises(InputError, match="was changed after it was sealed"):
        close(tmp_path, "2024-11", m10=rows())
