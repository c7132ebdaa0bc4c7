"""The samples of an agent's page of metrics that lines are made of. Pure; the text is whatever a server
sent.
"""

import math
from collections.abc import Iterator

from prometheus_client.parser import text_string_to_metric_families

from gpufleet.model.model_errors import WorldError, printable
from gpufleet.overview.rows.use import NAMES, Sample


def samples_of(page: str) -> Iterator[Sample]:
    """The samples; a value that is no number is left out. Raises WorldError for what is no page of
    metrics.
    """
    # A page has forty series for each card, of which these few are parsed.
    wanted = "\n".join(line for line in page.splitlines() if line.partition("{")[0] in NAMES)
    try:
        for family in text_string_to_metric_families(f"{wanted}\n"):
            for one in family.samples:
                if math.isfinite(one.value):
                    yield Sample(one.name, one.labels, one.value)
    except (ValueError, IndexError, KeyError, TypeError) as error:
        raise WorldError(f"not a page of metrics: {printable(str(error))}") from error
