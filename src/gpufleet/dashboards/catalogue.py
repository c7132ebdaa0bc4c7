"""All boards, in the order in which a person looks, and their files.

The command ``gpufleet dashboards`` writes the files; those of the chart are the same.
"""

from gpufleet.dashboards.board import Board
from gpufleet.dashboards.boards.fleet import FLEET
from gpufleet.dashboards.boards.money import MONEY
from gpufleet.dashboards.boards.node import NODE_AND_CARD
from gpufleet.dashboards.boards.queues import QUEUES
from gpufleet.dashboards.boards.scheduler import SCHEDULER
from gpufleet.dashboards.boards.serving import SERVING
from gpufleet.dashboards.boards.workload import WORKLOAD
from gpufleet.dashboards.grafana_codec import encode

BOARDS: tuple[Board, ...] = (FLEET, QUEUES, SCHEDULER, NODE_AND_CARD, WORKLOAD, SERVING, MONEY)


def files() -> dict[str, bytes]:
    """The JSON of each board by the name of its file."""
    return {f"{board.uid}.json": encode(board) for board in BOARDS}
