"""What ``cost`` and ``close-month`` take alike: tables of prices, and bills, which count before prices."""

import click

from gpufleet.cli.parameters import InputFile

PRICES = InputFile("a table of prices, or a provider's list of them")

bill_option = click.option(
    "--bill",
    "bills",
    multiple=True,
    type=InputFile("a provider's bill in the form of FOCUS"),
    help="A provider's bill as CSV of FOCUS, which counts before prices; may be given several times.",
)
"""``bills``, the files of the bills."""
