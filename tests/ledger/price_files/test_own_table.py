"""gpufleet's own table of prices, read to the millionth and refused by line and column."""

import pytest

from gpufleet.ledger.price_book import PriceScope, PriceUnit
from gpufleet.ledger.price_files.own_table import read_own_table
from gpufleet.model.model_errors import InputError

HEADING = "unit,amount,currency"


def test_a_price_has_its_scope_and_its_time() -> None:
    heading = "id,unit,amount,currency,gpu_model,region,labels,valid_from,valid_to,gpu_amount"
    row = "p1,node-hour,98.321234,EUR,NVIDIA H100 80GB HBM3,fra,b=2;a=1,2026-01-01,2026-07-01T12:00:00Z,80.5"
    (found,) = read_own_table([heading, row], "prices.csv").prices
    assert found.id == "p1"
    assert found.scope == PriceScope((("a", "1"), ("b", "2")), gpu_model="H100-80GB", region="fra")
    assert (found.unit, found.amount_micro, found.gpu_micro) == (PriceUnit.NODE_HOUR, 98_321_234, 80_500_000)
    assert (found.from_us, found.until_us) == (1_767_225_600_000_000, 1_782_907_200_000_000)


def test_a_line_without_an_id_is_called_by_its_place_and_without_a_time_it_is_good_at_any() -> None:
    first, second = read_own_table([HEADING, "gpu-hour,2.5,USD", "GPU-hour,3,USD"], "p.csv").prices
    assert (first.id, second.id) == ("p.csv:2", "p.csv:3")
    assert (first.from_us, first.until_us, first.unit) == (0, None, PriceUnit.GPU_HOUR)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["unit,amount", "node-hour,1"], "no column currency"),
        ([f"{HEADING},colour", "node-hour,1,USD,red"], "an unknown column, found 'colour'"),
        ([HEADING, "minute,1,USD"], "p.csv, line 2, unit: not a unit, found 'minute'"),
        ([HEADING, "GPU-hour,-1,USD"], "amount: not an amount, found '-1'"),
        ([HEADING, "GPU-hour,NaN,USD"], "amount: not an amount, found 'NaN'"),
        ([HEADING, "GPU-hour,1e30,USD"], "amount: not an amount, found '1e30'"),
        ([HEADING, "GPU-hour,0.1234567,USD"], "amount: too many decimals"),
        ([HEADING, "GPU-hour,1,dollars"], "currency: not a currency, found 'dollars'"),
        ([HEADING, "GPU-hour,1,USD,more"], "more cells than columns"),
        ([f"{HEADING},valid_from", "GPU-hour,1,USD,soon"], "valid_from: not a time, found 'soon'"),
        ([f"{HEADING},labels", "GPU-hour,1,USD,pool"], "labels: not a label, found 'pool'"),
        ([HEADING, 'GPU-hour,"1,USD'], "no table"),
    ],
)
def test_a_line_that_is_wrong_is_named(lines: list[str], words: str) -> None:
    with pytest.raises(InputError) as refused:
        read_own_table(lines, "p.csv")
    assert words in str(refused.value)
