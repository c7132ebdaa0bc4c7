"""An hour of a node that one owns costs what is written off, run and powered in it: arithmetic by hand."""

import pytest

from gpufleet.ledger.price_book import PriceScope, PriceUnit
from gpufleet.ledger.price_files.owned_nodes import read_owned_nodes
from gpufleet.ledger.price_files.recognised import read_prices
from gpufleet.model.model_errors import InputError

HEADING = "purchase,gpu_purchase,years,currency"


def test_a_node_is_written_off_by_the_hours_of_the_calendar() -> None:
    """(318,300 - 18,300) / (4 x 8,766) + 17,532 / 8,766 is 8.5557 + 2; the GPUs are half of the purchase."""
    heading = f"{HEADING},residual,support,space,gpu_model"
    (found,) = read_owned_nodes([heading, "318300,159150,4,EUR,18300,12000,5532,H100-80GB"], "own.csv").prices
    assert (found.unit, found.currency) == (PriceUnit.NODE_HOUR, "EUR")
    assert found.scope == PriceScope(gpu_model="H100-80GB")
    assert (found.amount_micro, found.gpu_micro) == (10_555_784, 5_277_892)


def test_power_is_watts_times_cooling_times_the_tariff() -> None:
    """5 kW x 1.5 x 0.20 is 1.50 an hour, of which GPUs draw 4 of 5 kW; 87,660 over ten years is 1 an hour."""
    heading = f"{HEADING},watts,gpu_watts,pue,tariff"
    (found,) = read_owned_nodes([heading, "87660,0,10,USD,5000,4000,1.5,0.20"], "own.csv").prices
    assert (found.amount_micro, found.gpu_micro) == (2_500_000, 1_200_000)


def test_the_table_is_known_by_its_columns() -> None:
    text = f"{HEADING}\n87660,87660,10,USD\n".encode()
    (found,) = read_prices(text, "own.csv").prices
    assert (found.amount_micro, found.gpu_micro, found.id) == (1_000_000, 1_000_000, "own.csv:2")


@pytest.mark.parametrize(
    ("columns", "cells", "words"),
    [
        ("", "1,1,0,USD", "line 2, years: is 0"),
        ("", "0,0,1,USD", "purchase: is 0"),
        ("", "1,2,1,USD", "gpu_purchase: too much"),
        ("", "1,1,soon,USD", "years: not an amount"),
        (",residual", "1,1,1,USD,2", "residual: too much"),
        (",watts,tariff", "1,1,1,USD,5,1", "gpu_watts: is missing"),
        (",watts,gpu_watts,pue,tariff", "1,1,1,USD,5,1,0.9,1", "pue: below 1"),
        (",watts,gpu_watts,pue,tariff", "1,1,1,USD,5,6,1,1", "gpu_watts: too much"),
        (",colour", "1,1,1,USD,red", "an unknown column"),
    ],
)
def test_what_is_wrong_is_told_by_line_and_column(columns: str, cells: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_owned_nodes([f"{HEADING}{columns}", cells], "own.csv")
