"""Lays out where in a cluster a model fits, for people or as JSON."""

from collections.abc import Iterator

from gpufleet.advise.fit.on_cluster import ClusterAnswer
from gpufleet.cli.fit_output import divided, of_card, table
from gpufleet.cli.output import echo_json, echo_line
from gpufleet.fit.answer import FitVerdict

# One or two lines of names; JSON has all.
NODES_SHOWN = 8


def show_places(found: ClusterAnswer, output: str) -> None:
    """Print where in the cluster the model fits, on standard output."""
    if output == "json":
        echo_json(found)
        return
    for line in lines(found):
        echo_line(line)


def lines(found: ClusterAnswer) -> Iterator[str]:
    """The whole text: where it runs now, where on an idle cluster, and why not elsewhere."""
    asked = found.answer.asked
    model = found.answer.model.name
    yield f"{model}: {asked.batch} x {asked.context} tokens, weights {asked.weights}, kv {asked.kv}"
    yield ""
    if found.places:
        fits = {card.gpu: card for card in found.answer.cards}
        rows = [("card", "divided among", "copies now", "when idle", "nodes now")]
        rows += [
            (
                place.gpu,
                divided(fits[place.gpu]),
                str(place.now),
                str(place.idle),
                shortened(place.nodes_now) or "-",
            )
            for place in found.places
        ]
        yield from table(rows)
    for place in found.places:
        if not place.idle:
            yield f"The cluster has too few {place.gpu}: one copy takes {place.gpus}, even when all are idle."
    for card in found.answer.cards:
        if card.verdict is not FitVerdict.YES:
            yield ""
            yield from of_card(card, found.answer)
    left_out = [room for room in found.nodes if room.why_not]
    if left_out:
        yield ""
        for room in left_out:
            yield f"Left out: {room.node}, {room.why_not}"


def shortened(names: tuple[str, ...]) -> str:
    """The first names, and how many more."""
    more = f" and {len(names) - NODES_SHOWN} more" if len(names) > NODES_SHOWN else ""
    return ", ".join(names[:NODES_SHOWN]) + more
