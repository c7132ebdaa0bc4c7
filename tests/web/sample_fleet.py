"""Documents of a made-up fleet of any size, as ``gpufleet web`` sends them: for the page, its tests and
pictures.

    python -m tests.web.sample_fleet          writes tests/web/samples anew, for ten nodes
    python -m tests.web.sample_fleet 10000 DIRECTORY

The fleet is the same each time. Among its nodes are one with an unwell card, one that is cordoned, one
without a report and one whose GPUs are in part those of another namespace. Some names look like markup.
"""

import random
import sys
from pathlib import Path
from typing import Any

import msgspec

from gpufleet.doctor.report import FailureReport, MendReport
from gpufleet.explain.answer import SCHEMA, Answer, Asked, NearRow, ReasonRow, State
from gpufleet.explain.queue_answer import ReservationRow, ResourceRow
from gpufleet.web import documents
from gpufleet.whatif import answer as whatif

SAMPLES = Path(__file__).parent / "samples"
AT = "2026-03-01T12:00:00Z"
QUEUES = ("vision", "language", "research")
POOLS = (("h100", "H100-80GB", 81_559), ("a100", "A100-80GB", 81_920), ("l4", "L4-24GB", 23_034))
CARDS = 8
FOREIGN_NODE, UNWELL_NODE, CORDONED_NODE, SILENT_NODE, SHARED_NODE = 1, 2, 3, 4, 5
MARKUP = "<img src=x onerror=alert(1)>"


class SampleFleet:
    """All rows of a fleet of so many nodes."""

    def __init__(self, nodes: int) -> None:
        self.chance = random.Random(7)
        self.work: list[documents.WorkRow] = []
        self.nodes = [self._node(number) for number in range(nodes)]
        self.waiting = [self._waits(number) for number in range(max(3, nodes // 4))]
        self.work += [row for _, row in self.waiting]
        self.work.append(self._gang())

    def _node(self, number: int) -> documents.NodeRow:
        pool, model, memory_mib = POOLS[number * len(POOLS) // (len(POOLS) * 4) % len(POOLS)]
        name = f"gpu-{number + 1:05d}"
        kind = number % 10
        if kind == SILENT_NODE:
            reason = "no agent reports its GPUs: nothing with GPUs is placed there"
            return documents.NodeRow(name, "no report", reason, pool, gpus=CARDS, gpus_held=0.0, pods=0)
        cards = tuple(self._card(name, kind, place, memory_mib) for place in range(CARDS))
        unwell = sum(card.health != "healthy" for card in cards)
        held = sum(card.held_milli or 0 for card in cards) / 1000
        free = sum(card.health == "healthy" and not card.held_milli for card in cards)
        state, reason = "ready", ""
        if unwell:
            state, reason = f"{unwell} unwell", f"{cards[0].id}: {cards[0].reason}"
        if kind == CORDONED_NODE:
            state, reason = "cordoned", "it takes no new pods (kubectl uncordon)"
        names = {(one.namespace, one.name) for card in cards for one in card.holders}
        return documents.NodeRow(
            name,
            state,
            reason,
            pool,
            model,
            CARDS,
            held,
            unwell,
            0 if kind == CORDONED_NODE else free,
            len(names),
            kind == CORDONED_NODE,
            cards,
        )

    def _card(self, node: str, kind: int, place: int, memory_mib: int) -> documents.Card:
        id_ = f"GPU-{node}-{place}"
        if kind == UNWELL_NODE and place == 0:
            return documents.Card(
                id_, "unhealthy", "Xid 79: the GPU has fallen off the bus", memory_mib=memory_mib
            )
        if kind == FOREIGN_NODE and place < 4:
            return documents.Card(id_, held_milli=1000, holders=(documents.Holder(1000),))
        if kind == SHARED_NODE and place == 0:
            shares = tuple(
                self._runs(node, f"notebook-{node}-{part}", "research", 250, memory_mib // 4)
                for part in range(3)
            )
            return documents.Card(
                id_, held_milli=750, holders=shares, memory_mib=memory_mib, sharing="shares"
            )
        if self.chance.random() < 0.3:
            return documents.Card(id_, memory_mib=memory_mib)
        queue = self.chance.choice(QUEUES)
        holder = self._runs(node, f"train-{node}-{place}", queue, 1000, memory_mib)
        return documents.Card(id_, held_milli=1000, holders=(holder,), memory_mib=memory_mib)

    def _runs(self, node: str, name: str, queue: str, milli: int, memory_mib: int) -> documents.Holder:
        namespace = f"team-{queue}"
        self.work.append(
            documents.WorkRow(
                f"pod/{namespace}/{name}",
                "runs",
                queue,
                node,
                gpus=milli / 1000,
                created="2026-03-01T09:12:00Z",
            )
        )
        return documents.Holder(milli, namespace, name, queue, memory_mib)

    def _waits(self, number: int) -> tuple[documents.WaitingWork, documents.WorkRow]:
        queue = QUEUES[number % len(QUEUES)]
        namespace, name, position = f"team-{queue}", f"waits-{number:04d}", number // len(QUEUES) + 1
        why = "0 of 10 nodes fit: 6 have too few free GPUs, 4 have another GPU model"
        work = documents.WaitingWork(
            "pod",
            namespace,
            name,
            1,
            position,
            created="2026-03-01T11:40:00Z",
            reason="nodes",
            cause="gpu-count",
            words="nodes (gpu-count)",
            expected_start="2026-03-01T12:30:00Z" if position == 1 else None,
        )
        row = documents.WorkRow(
            f"pod/{namespace}/{name}",
            "waits",
            queue,
            gpus=8.0,
            created=work.created,
            position=position,
            cause="gpu-count",
            why=f"{why} {MARKUP}" if number == 0 else why,
            expected_start=work.expected_start,
        )
        return work, row

    def _gang(self) -> documents.WorkRow:
        return documents.WorkRow(
            "gang/team-language/pretrain",
            "in part",
            "language",
            gpus=32.0,
            created="2026-03-01T11:00:00Z",
            cause="members",
            why="1 of its 4 members has not come",
            members_placed=2,
            members_arrived=3,
            members_min=4,
        )

    def fleet(self) -> documents.FleetRow:
        """The sums of the nodes."""
        free = [one.free_gpus or 0 for one in self.nodes]
        held = sum(one.gpus_held or 0 for one in self.nodes)
        gpus = sum(one.gpus or 0 for one in self.nodes)
        unwell = sum(one.gpus_unwell or 0 for one in self.nodes)
        return documents.FleetRow(
            "fleet",
            summary=f"{len(self.nodes)} nodes, {gpus} GPUs, {held:.6g} held, {unwell} unwell",
            nodes=len(self.nodes),
            gpus=gpus,
            gpus_held=held,
            gpus_unwell=unwell,
            free_gpus=sum(free),
            largest_free_block=max(free),
            free_blocks={str(size): sum(one // size for one in free) for size in (1, 2, 4, 8)},
            fragmented_gpus=sum(
                one for one, node in zip(free, self.nodes, strict=True) if one < (node.gpus or 0)
            ),
            pods_waiting=len(self.waiting),
        )

    def queues(self) -> list[documents.QueueRow]:
        """The queues: a root, and three below it."""
        gpus = sum(one.gpus or 0 for one in self.nodes)
        used = dict.fromkeys(QUEUES, 0.0)
        for row in self.work:
            if row.node:
                used[row.queue] += row.gpus or 0
        quota = gpus // len(QUEUES)
        root = ResourceRow("gpu", _amount(sum(used.values())), str(quota * 3), "0", fair_share=str(quota * 3))
        found = [documents.QueueRow("company", resources=(root,), pods_waiting=len(self.waiting))]
        for name in QUEUES:
            borrowed = max(0.0, used[name] - quota)
            resource = ResourceRow(
                "gpu",
                _amount(used[name]),
                str(quota),
                str(quota),
                _amount(borrowed),
                _amount(max(0.0, quota - used[name])),
                str(quota),
            )
            waiting = tuple(work for work, row in self.waiting if row.queue == name)
            held = ReservationRow("gang", "team-language", "pretrain", 2, AT, "2026-03-01T12:45:00Z")
            found.append(
                documents.QueueRow(
                    name,
                    "company",
                    1,
                    why=f"{len(waiting)} nodes" if waiting else "",
                    resources=(resource,),
                    share=f"{used[name] / gpus:.3f}",
                    pods_waiting=len(waiting),
                    waiting=waiting[:50],
                    waiting_more=max(0, len(waiting) - 50),
                    reservation=held if name == "language" else None,
                )
            )
        return found

    def decisions(self) -> list[documents.DecisionRow]:
        """The newest decisions about pods."""
        found = [
            documents.DecisionRow(row.key, AT, documents.DecisionKind.WAITS, row.queue, text=row.why)
            for _, row in self.waiting[:20]
        ]
        placed = [row for row in self.work if row.node][:20]
        return found + [
            documents.DecisionRow(
                row.key,
                "2026-03-01T11:58:00Z",
                documents.DecisionKind.PLACED,
                row.queue,
                row.node,
                f"placed on {row.node}",
            )
            for row in placed
        ]

    def explained(self) -> documents.WorkDocument:
        """A pod that waits."""
        row = self.waiting[0][1]
        _, namespace, name = row.key.split("/")
        answer = Answer(
            SCHEMA,
            Asked("pod", namespace, name),
            State.WAITS,
            f"pod {namespace}/{name} waits",
            cause="gpu-count",
            why=row.why,
            way_out=("ask for at most 4 GPUs", "wait until gpu-00001 has 8 free GPUs"),
            nodes=len(self.nodes),
            reasons=(
                ReasonRow("gpu-count", "have too few free GPUs", 6, 6, ("gpu-00001", "gpu-00002")),
                ReasonRow("gpu-model", "have another GPU model", 4, 4, ("gpu-00009",)),
            ),
            nearest=(NearRow("gpu-00001", ("gpu-count",), {"gpu": 2}, ("team-vision/train-gpu-00001-0",)),),
        )
        history = (
            documents.HistoryRow(row.created, "created"),
            documents.HistoryRow("2026-03-01T11:40:02Z", "waits", row.why, count=3),
        )
        return documents.WorkDocument(AT, row, answer, history)

    def running(self) -> documents.WorkDocument:
        """A pod that runs, with its device."""
        row = next(one for one in self.work if one.node and one.gpus == 1.0)
        node = next(one for one in self.nodes if one.key == row.node)
        card = next(one for one in node.cards if any(row.key.endswith(h.name) for h in one.holders if h.name))
        _, namespace, name = row.key.split("/")
        answer = Answer(
            SCHEMA, Asked("pod", namespace, name), State.RUNS, f"pod {namespace}/{name} runs on {node.key}"
        )
        device = documents.WorkDevice(
            f"{namespace}/{name}",
            node.key,
            card.id,
            node.model,
            1000,
            card.memory_mib,
            used_ratio=0.87,
            memory_used_bytes=61.5 * 2**30,
            power_watts=512.0,
        )
        history = (
            documents.HistoryRow(row.created, "created"),
            documents.HistoryRow("2026-03-01T09:12:04Z", "placed", f"placed on {node.key}"),
        )
        return documents.WorkDocument(AT, row, answer, history, (device,))

    def node(self) -> documents.NodeDocument:
        """The node with an unwell card."""
        row = self.nodes[UNWELL_NODE]
        use = tuple(
            documents.CardUseRow(card.id, 0.9, 60.0 * 2**30, 80.0 * 2**30, 540.0, 61.0)
            for card in row.cards
            if card.held_milli
        )
        return documents.NodeDocument(
            AT,
            row,
            "570.86.15",
            (
                documents.ConditionRow(
                    "Ready",
                    "True",
                    "KubeletReady",
                    "kubelet is posting ready status",
                    "2026-02-20T08:00:00Z",
                ),
            ),
            (documents.TaintRow("gpufleet.io/unhealthy", "NoExecute", card=row.cards[0].id),),
            use,
            "",
            tuple(one for one in self.work if one.node == row.key),
        )


def _amount(gpus: float) -> str:
    return f"{gpus:.6g}" if gpus == int(gpus) else f"{gpus * 1000:.0f}m"


def plan() -> whatif.Answer:
    """What two nodes more would bring."""
    start = whatif.Start(0.0, {"new-1": 1})
    return whatif.Answer(
        "gpufleet.io/whatif/v1",
        AT,
        ("2 nodes like gpu-00001 are added",),
        (whatif.Work("pod", "team-vision", "waits-0000", 1, "vision", "8", start=start),),
        *((), (), (), (), (), ()),
        waits_more=0,
        waiting_pods_before=3,
        waiting_pods_after=2,
        queues=(whatif.QueueChange("vision", "gpu", "26", "34", "26", "26"),),
        notes=(),
    )


def problems() -> documents.ProblemsDocument:
    """A card that is gone, with what follows from it."""
    mend = MendReport("Take the node out of service and reset it", "kubectl cordon gpu-00003", "")
    cause = FailureReport(
        "device-unhealthy",
        2,
        "broken",
        "gpu-00003: GPU-gpu-00003-0 is unhealthy (Xid 79: the GPU has fallen off the bus)",
        "Nothing is placed on a card that is not healthy.",
        ("Node gpu-00003",),
        ("Xid 79",),
        (mend,),
        (),
    )
    alert = documents.AlertRow(
        "GPUGone",
        "critical",
        "2026-03-01T11:51:00Z",
        "A GPU of gpu-00003 has fallen off the bus.",
        "https://gpufleet.io/alerts/#gpugone",
        {"node": "gpu-00003"},
    )
    return documents.ProblemsDocument(AT, False, (cause,), ("prices: no price list is there",), (alert,))


def projects() -> documents.ProjectsDocument:
    """A project that is as it says, one that is not, and one that no operator has seen yet."""
    owner = documents.ProjectMember("Owner", "olga@example.com")
    rows = (
        documents.ProjectRow(
            "language",
            "language",
            ("language", "language-dev"),
            ("language-old",),
            (owner, documents.ProjectMember("Member", group="language")),
            "language",
            is_ready=False,
            reason="NamespaceTaken",
            message="the namespace language-dev was made by others",
        ),
        documents.ProjectRow("new", "new", ("new",)),
        documents.ProjectRow("vision", "vision", ("vision",), (), (owner,), "vision", is_ready=True),
    )
    return documents.ProjectsDocument(AT, rows)


def view_events(fleet: SampleFleet) -> dict[str, documents.ViewEvent]:
    """Each view of the stream, whole, by its name."""
    rows: dict[str, list[Any]] = {
        "fleet": [fleet.fleet()],
        "nodes": list(fleet.nodes),
        "queues": list(fleet.queues()),
        "work": list(fleet.work),
        "decisions": list(fleet.decisions()),
    }
    return {
        view: documents.ViewEvent(view, tuple(msgspec.Raw(msgspec.json.encode(row)) for row in rows[view]))
        for view in documents.VIEWS
    }


def use_of(rows: list[documents.NodeRow]) -> documents.FleetUseDocument:
    """What the cards do: most that are held are busy, some idle, and one node in ten is not measured."""
    chance = random.Random(3)

    def load(card: documents.Card) -> float | None:
        if card.health != "healthy":
            return None
        if not card.held_milli:
            return 0.0
        return round(chance.choice((0.0, 0.18, 0.42, 0.66, 0.87, 0.93, 0.97, 0.99)), 2)

    measured = tuple(
        documents.NodeUseRow(
            row.key,
            4.0 + place % 17,
            tuple(load(card) for card in row.cards),
            tuple(0.0 if not card.held_milli else 0.82 for card in row.cards),
        )
        for place, row in enumerate(rows)
        if row.cards and place % 10 != 9
    )
    unknown = f"use of {len(rows) - len(measured)} nodes is not known: their agents do not answer"
    return documents.FleetUseDocument(AT, measured, unknown)


def samples(nodes: int) -> dict[str, object]:
    """Every document of a fleet of so many nodes, by the name of its file."""
    fleet = SampleFleet(nodes)
    return {
        **{f"view-{view}": event for view, event in view_events(fleet).items()},
        "source": documents.Source(documents.SourceState.LIVE, AT, queues_as_of=AT),
        "source-away": documents.Source(
            documents.SourceState.AWAY,
            "2026-03-01T11:59:20Z",
            "the API server does not answer: connection refused",
        ),
        "rows": documents.RowsEvent(
            "nodes", (msgspec.Raw(msgspec.json.encode(fleet.nodes[0])),), ("gpu-00099",)
        ),
        "heartbeat": documents.Heartbeat(AT),
        "about": documents.About("0.1.0", cluster="example"),
        "about-in-cluster": documents.About(
            "0.1.0",
            "ada@example.com",
            "example",
            ("team-vision",),
            sees_all=False,
            can_log_out=True,
            hidden=("pods of other namespaces: the right to list pods in all namespaces would show them",),
        ),
        "refusal": documents.Refusal("your login is over", way_out="log in again", login=True),
        "work-waits": fleet.explained(),
        "work-runs": fleet.running(),
        "node": fleet.node(),
        "plan": plan(),
        "problems": problems(),
        "projects": projects(),
        "use": use_of(fleet.nodes),
    }


def write(folder: Path, nodes: int) -> None:
    """Write every document into a file of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, document in samples(nodes).items():
        (folder / f"{name}.json").write_bytes(
            msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"
        )


if __name__ == "__main__":
    write(Path(sys.argv[2]) if len(sys.argv) > 2 else SAMPLES, int(sys.argv[1]) if len(sys.argv) > 1 else 10)
