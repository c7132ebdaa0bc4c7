"""Prices as commands take them: a model of GPU and what an hour of it costs."""

from decimal import Decimal, InvalidOperation

from gpufleet.model.model_errors import InputError
from gpufleet.usage.samples import model_of


def read_price(text: str) -> tuple[str, Decimal]:
    """The model's name in the catalogue, and the price; raises InputError for anything else."""
    name, _, amount = text.partition("=")
    try:
        price = Decimal(amount)
    except InvalidOperation:
        price = Decimal(-1)
    if not price.is_finite() or price < 0:
        raise InputError(
            "not a price", field="--price", value=text, expected="MODEL=AMOUNT such as A100-80GB=2.50"
        )
    return model_of(name, "--price"), price
