"""Asks a cluster, or a file of one, where a model fits: answers for the cards that its nodes have."""

import asyncio
from pathlib import Path

import msgspec

from gpufleet.advise.fit.ask import cards_of, model_of
from gpufleet.advise.fit.cluster_file import read_cluster_file
from gpufleet.fit.answer import Answer
from gpufleet.fit.cluster import (
    FoundGpus,
    NodeGpus,
    RunnableCopies,
    cards_of_rooms,
    places_of,
    read_cluster,
    rooms_of,
)
from gpufleet.fit.options import Options, serving_of
from gpufleet.fit.search import answer
from gpufleet.kube.connection import ClusterChoice, connect
from gpufleet.model.model_errors import InputError


class ClusterAnswer(msgspec.Struct, frozen=True):
    """The answer for the cards of a cluster, and where each yes can run."""

    answer: Answer
    places: tuple[RunnableCopies, ...]
    nodes: tuple[NodeGpus, ...]


def ask_cluster(options: Options, kubeconfig: Path | None, context: str) -> ClusterAnswer:
    """The answer; raises InputError in the terms of the command line, WorldError if no cluster answers."""
    return answered(options, rooms_of(asyncio.run(_found(kubeconfig, context))))


def ask_cluster_file(options: Options, file: Path) -> ClusterAnswer:
    """The answer for the cluster in that file; raises InputError."""
    return answered(options, rooms_of(read_cluster_file(file)))


def answered(options: Options, rooms: list[NodeGpus]) -> ClusterAnswer:
    """The answer for these nodes."""
    model = model_of(options.model, from_hub=options.from_hub)
    asked = {card.model for card in cards_of(options.gpus)}
    cards = tuple(card for card in cards_of_rooms(rooms) if card.model in asked)
    if not cards:
        raise InputError(
            "the cluster has no whole GPU of a known model" + (" that was named" if options.gpus else ""),
            value=[f"{room.node}: {room.why_not or room.card}" for room in rooms[:10]] or None,
        )
    found = answer(model, serving_of(options, model), cards, proposes=True)
    return ClusterAnswer(found, places_of(found.cards, rooms), tuple(rooms))


async def _found(kubeconfig: Path | None, context: str) -> FoundGpus:
    async with connect(ClusterChoice(kubeconfig, context)) as connection:
        return await read_cluster(connection.client)
