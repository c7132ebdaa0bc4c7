"""Words for tests of reservations."""

import msgspec

from gpufleet.model.pod import Pod
from gpufleet.model.queue import Queue
from gpufleet.model.shape import Shape
from tests.engine.fleet_builder import SECOND_US, Story, pod
from tests.engine.queueing.queue_builder import queue


def team(name: str = "team", *, reserve_after_s: int | None = 0) -> Queue:
    """A queue without limits whose work reserves at once, unless told otherwise."""
    return queue(name, reserve_after_s=reserve_after_s)


def running(uid: str, needs: Shape, *, for_s: int | None, queue: str = "team") -> Pod:
    """A pod that says how long it runs, or does not say it (None)."""
    run_time_us = None if for_s is None else for_s * SECOND_US
    return msgspec.structs.replace(pod(uid, needs, queue=queue), run_time_us=run_time_us)


def holders(story: Story) -> list[str]:
    """Who holds a reservation."""
    return [one.holder for one in story.engine.reservations()]


def guest(uid: str, needs: Shape, *, queue: str = "team") -> Pod:
    """A pod that says that it may be interrupted, and nothing of its run time."""
    return msgspec.structs.replace(pod(uid, needs, queue=queue), interruptible=True)
