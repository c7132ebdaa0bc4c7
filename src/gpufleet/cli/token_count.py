"""A number of tokens as people write it: 32768, 32k, 1m. A k is 1,024, as lengths of contexts are counted."""

import re

import click

from gpufleet.cli.parameters import name_of
from gpufleet.model.model_errors import InputError

SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20}
_WRITTEN = re.compile(r"([1-9][0-9]{0,8})([km]?)")


class TokenCount(click.ParamType[int]):
    """What an option takes."""

    name = "tokens"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:  # noqa: ARG002
        """The number; ends the command where it is none."""
        found = _WRITTEN.fullmatch(str(value).replace(",", "").lower())
        if found is None:
            raise InputError(
                "not a number of tokens", field=name_of(param), value=value, expected="32768, 32k or 1m"
            )
        return int(found[1]) * SIZES[found[2]]
