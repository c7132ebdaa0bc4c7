"""Containers that set up the cards of a node, which a driver allows to administrators alone.

They work on the cards that are there, also on those that others hold: a card by a device plugin would be
another one.
"""

import re

from gpufleet.lint.objects.containers import Container

_SETS_CARDS = re.compile(
    r"\bnvidia-smi\b[^\n;|&]*\s(-c|--compute-mode|-pm|--persistence-mode|-mig|-pl|--power-limit|-ac|-lgc|-lmc"
    r"|--lock-\S+|-r|--gpu-reset|-e|--ecc-config|mig\s+-[cd]\S+)(=|\s|$)"
    r"|\bnvidia-cuda-mps-control\b"
)
"""Commands that change a card for all who use it."""


def administers_cards(container: Container) -> bool:
    """Whether its command, or the script of a step of Argo, changes cards for all who use them."""
    script = container.field.text_at("source") or ""
    return _SETS_CARDS.search("\n".join((" ".join(container.words), script))) is not None
