"""A what-if from its words to its answer, for a live cluster or a snapshot."""

import datetime as dt
from collections.abc import Iterable
from functools import partial

from gpufleet.cluster.facts import Facts
from gpufleet.cluster.mig_layouts.managed_cards import cuts_under_way
from gpufleet.cluster.progress import ENGINE, Say
from gpufleet.cluster.settings import Settings
from gpufleet.cluster.snapshots.command import gaps
from gpufleet.cluster.snapshots.decisions import Moment
from gpufleet.cluster.snapshots.document import engine_time_us
from gpufleet.cluster.snapshots.sources import on_cluster, on_snapshot
from gpufleet.cluster.watching.picture import Picture
from gpufleet.kube import resources
from gpufleet.kube.codec.times import whole_time
from gpufleet.kube.connection import ClusterChoice
from gpufleet.kube.objects.node import Node
from gpufleet.kube.objects.pod import Pod
from gpufleet.model.model_errors import InputError
from gpufleet.model.phrases import counted
from gpufleet.whatif.answer import SCHEMA, Answer, Work
from gpufleet.whatif.course import Course
from gpufleet.whatif.difference import Difference, work_key
from gpufleet.whatif.nodes import add_nodes, check_add_nodes, remove_node
from gpufleet.whatif.pools import nodes_of_pool
from gpufleet.whatif.quotas import check_set_quota, set_quota
from gpufleet.whatif.request import Request
from gpufleet.whatif.submission import Submission


def check(request: Request) -> None:
    """Find what is wrong with the changes before anything is read. Raises InputError."""
    for nodes in request.add_nodes:
        check_add_nodes(nodes)
    for quota in request.set_quotas:
        check_set_quota(quota)


def of_snapshot(request: Request, lines: Iterable[bytes], where: str) -> Answer:
    """The answer on a snapshot."""
    return on_snapshot(lines, where, partial(answer_of, request))


def of_cluster(request: Request, cluster: ClusterChoice, settings: Settings) -> Answer:
    """The answer on a cluster as it is now."""
    return on_cluster(cluster, settings, partial(answer_of, request))


def answer_of(request: Request, picture: Picture, settings: Settings, at: dt.datetime, say: Say) -> Answer:
    """What the changes would bring. Raises InputError for changes that cannot be."""
    if request.empty:
        expected = "--add-nodes, --remove-node, --remove-pool, --set-quota or --submit"
        raise InputError("nothing would change", expected=expected)
    changed = Changed(request, picture, settings, at)
    say(ENGINE)
    moment, now_us = Moment(at), engine_time_us(at)
    before = Course(Facts(picture, settings, moment), now_us)
    after = Course(Facts(changed.picture, settings, moment), now_us)
    difference = Difference(before, after, changed.submitted)
    waits, more = difference.waits()
    return Answer(
        SCHEMA,
        written_moment(at),
        tuple(changed.words),
        difference.starts(),
        difference.evicted(),
        difference.displaced(),
        difference.delayed(),
        difference.spared(),
        tuple(changed.lost),
        waits,
        more,
        len(before.waiting()),
        len(after.waiting()),
        difference.queues(),
        (*changed.notes, *notes_of(picture, before, after)),
    )


def written_moment(at: dt.datetime) -> str:
    """A moment as the answers write it."""
    return whole_time(at.astimezone(dt.UTC))


def notes_of(picture: Picture, before: Course, after: Course) -> list[str]:
    """What the answer does not know."""
    notes = [f"refused: {problem}" for problem in after.rejected if problem not in before.rejected]
    missing = gaps(kind.plural for kind in picture.forbidden)
    if missing:
        notes.append(missing)
    if after.cut or before.cut:
        notes.append("what comes later than the first thousand events was not looked at")
    return [*notes, *cuts_under_way(picture.all(resources.NODES))]


class Changed:
    """A copy of a picture with the changes made, and what they are called."""

    def __init__(self, request: Request, picture: Picture, settings: Settings, at: dt.datetime) -> None:
        self.picture = picture.copied()
        self.words: list[str] = []
        self.notes: list[str] = []
        self.lost: list[Work] = []
        # Quotas before nodes: a mistyped queue shall be told before anything long is done.
        submission = Submission(self.picture, request.namespace, settings.scheduler_name, written_moment(at))
        # Files before quotas: a queue that comes with a file may be given a quota by an option.
        for file in request.submit:
            had = len(submission.uids)
            submission.submit(file)
            self.words.append(f"{file.name}: {counted(len(submission.uids) - had, 'pod')} submitted")
        self.submitted = submission.uids
        self.notes += submission.notes
        self.words += [set_quota(self.picture, one) for one in request.set_quotas]
        self.removed: list[Node] = []
        for name in request.remove_nodes:
            again = self._remove(name, settings, at)
            self.words.append(f"node {name} is gone, and {counted(again, 'pod')} on it must go elsewhere")
        for pool in request.remove_pools:
            names = [node.metadata.name for node in nodes_of_pool(self.picture, pool)]
            again = sum(self._remove(name, settings, at) for name in names)
            self.words.append(
                f"pool {pool} is gone with {counted(len(names), 'node')}, "
                f"and {counted(again, 'pod')} on it must go elsewhere"
            )
        self.words += [add_nodes(self.picture, one) for one in request.add_nodes]

    def _remove(self, name: str, settings: Settings, at: dt.datetime) -> int:
        """Take a node away. Returns how many of its pods wait again."""
        node: Node | None = self.picture.find(resources.NODES, name)
        displaced = remove_node(self.picture, name, written_moment(at), settings.scheduler_name)
        if node is not None:
            self.removed.append(node)
        self.lost += [_lost(pod) for pod in displaced.lost]
        if displaced.foreign:
            others = counted(displaced.foreign, "pod")
            self.notes.append(f"{others} of other schedulers on {name} must find a place elsewhere")
        return len(displaced.again)


def _lost(pod: Pod) -> Work:
    return Work(*work_key(pod), pods=1, why="no controller makes it anew")
