"""Which kind of file of prices one is, by its beginning, and the book of several files together."""

from collections.abc import Iterable

from gpufleet.ledger.price_book import PriceBook
from gpufleet.ledger.price_files.aws_price_list import read_aws_price_list
from gpufleet.ledger.price_files.catalogues import GPUHUNT, SKYPILOT, read_gpuhunt, read_skypilot
from gpufleet.ledger.price_files.offers import Imported
from gpufleet.ledger.price_files.own_table import REQUIRED, read_own_table
from gpufleet.ledger.price_files.owned_nodes import REQUIRED as OWNED
from gpufleet.ledger.price_files.owned_nodes import read_owned_nodes
from gpufleet.model.model_errors import InputError

EXPECTED = (
    "a table of prices with the columns unit, amount and currency, one of nodes of your own with purchase,"
    " gpu_purchase, years and currency, vms.csv of SkyPilot's catalogue, a table"
    " of gpuhunt, or the JSON of AWS' price list of a region"
)
"""The kinds of files that are known."""


def read_prices(text: bytes, name: str) -> Imported:
    """The prices of a file. Raises InputError, naming the place, for what is none of these kinds."""
    # The price list of AWS is one object of JSON; the others are tables.
    if text.lstrip()[:1] == b"{":
        return read_aws_price_list(text, name)
    try:
        lines = text.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError("not text", where=name, expected=EXPECTED) from error
    columns = {cell.strip().strip('"') for cell in (lines[0] if lines else "").split(",")}
    if columns.issuperset(SKYPILOT):
        return read_skypilot(lines, name)
    if columns.issuperset(GPUHUNT):
        return read_gpuhunt(lines, name)
    if columns.issuperset(OWNED):
        return read_owned_nodes(lines, name)
    if columns & set(REQUIRED):
        return read_own_table(lines, name)
    raise InputError("no file of prices", where=name, expected=EXPECTED)


def book_of(imported: Iterable[Imported]) -> PriceBook:
    """All prices of several files. Raises InputError where two of them contradict each other."""
    return PriceBook(price for one in imported for price in one.prices)
