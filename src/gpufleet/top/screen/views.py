"""The five views: what stands in their columns, how lines are told apart, and what their colours mean."""

import datetime as dt
from typing import Any

from gpufleet.overview.rows.lines import GangLine, IdleLine, NodeLine, PodLine, QueueLine
from gpufleet.top.screen import amounts
from gpufleet.top.screen.amounts import NONE, UNKNOWN
from gpufleet.top.screen.columns import Column, Tone, View, number_column

NODE_RANKS = {"not ready": 0, "?": 1, "no report": 2, "cordoned": 4, "ready": 5}
POD_RANKS = {"held": 0, "waits": 1, "gated": 2, "foreign": 3, "leaves": 4, "placed": 5, "runs": 6}
GANG_RANKS = {"in part": 0, "held": 1, "waits": 2, "runs": 3}
IDLE_RANKS = {"empty": 0, "?": 1, "holding": 2, "free": 3}
UNWELL_RANK = 3
RATIO_SLACK = 0.05
GIBIBYTE = float(amounts.GIBIBYTE)
HOT_CELSIUS = 85.0
"""From here on a card's temperature is worth a look; cards lower their clocks a little above."""

NAME_MOST = 40
"""Namespace and name of a pod have room in it; on a wide screen reasons need what is left."""


def _path(line: PodLine | GangLine | IdleLine) -> str:
    return f"{line.namespace}/{line.name}" if line.namespace else line.name


def _reason(line: PodLine | GangLine, start: str = "") -> str:
    """The place in the queue, the start that is expected, and the cause with its words."""
    number = "" if line.position is None else f"#{line.position} "
    why = f": {line.why}" if line.why and line.cause else line.why
    return f"{number}{start}{line.cause}{why}"


def _start(line: GangLine | QueueLine) -> str:
    return f"starts {line.expected_start}; " if line.expected_start else ""


def _or_none(text: str | None) -> str:
    return text or NONE


def _short(amount: str) -> str:
    """An amount with at most two digits behind the point, so that it is never cut."""
    number = _amount(amount)
    return amount if number is None else f"{round(number, 2):.8g}"


def _amount(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def _held(line: NodeLine, _: dt.datetime) -> str:
    total = UNKNOWN if line.gpus is None else str(line.gpus)
    return f"{amounts.plain_number(line.gpus_held)}/{total}"


def _memory_ratio(line: NodeLine) -> float | None:
    if line.memory_used_bytes is None or not line.memory_bytes:
        return None
    return line.memory_used_bytes / line.memory_bytes


def _node_tone(line: NodeLine) -> Tone:
    if line.state == "ready":
        is_hot = line.temperature_celsius is not None and line.temperature_celsius >= HOT_CELSIUS
        return Tone.WARN if is_hot else Tone.PLAIN
    return Tone.WARN if line.state in {"cordoned", "?"} else Tone.BAD


NODE: View[NodeLine] = View(
    "node",
    "nodes",
    (
        Column("name", "NODE", 16, lambda n, _: n.name, lambda n: n.name, is_name=True, share=1),
        Column(
            "state",
            "STATE",
            9,
            lambda n, _: n.state,
            lambda n: float(NODE_RANKS.get(n.state, UNWELL_RANK)),
        ),
        number_column("gpus", "HELD", 7, _held, lambda n: n.gpus_held, slack=0.5),
        number_column(
            "use",
            "USE",
            4,
            lambda n, _: amounts.percent(n.busy_ratio),
            lambda n: n.busy_ratio,
            slack=RATIO_SLACK,
        ),
        number_column(
            "memory",
            "MEM",
            4,
            lambda n, _: amounts.percent(_memory_ratio(n)),
            _memory_ratio,
            slack=RATIO_SLACK,
        ),
        number_column(
            "power",
            "POWER",
            6,
            lambda n, _: amounts.watts(n.power_watts),
            lambda n: n.power_watts,
            drops=2,
            slack=100.0,
        ),
        number_column(
            "temperature",
            "TEMP",
            4,
            lambda n, _: amounts.celsius(n.temperature_celsius),
            lambda n: n.temperature_celsius,
            drops=3,
            slack=3.0,
        ),
        number_column(
            "pods",
            "PODS",
            4,
            lambda n, _: UNKNOWN if n.pods is None else str(n.pods),
            lambda n: n.pods,
            drops=4,
        ),
        Column("model", "MODEL", 14, lambda n, _: n.model or UNKNOWN, lambda n: n.model, drops=5),
        Column(
            "reason", "REASON", 24, lambda n, _: n.reason, lambda n: n.reason, drops=6, share=1, is_wide=True
        ),
    ),
    key=lambda n: n.name,
    tone=_node_tone,
    detail=lambda n: n.reason,
    words=lambda n: (n.name, n.state, n.model),
    sort_by="state",
    empty="no node has GPUs",
)


def _pod_place(line: PodLine) -> str:
    return line.node or _reason(line)


def _pod_use(line: PodLine, text: str) -> str:
    """A pod without a node uses nothing, and that is known."""
    return text if line.node else NONE


POD: View[PodLine] = View(
    "pod",
    "pods",
    (
        Column("name", "POD", 26, lambda line, _: _path(line), _path, is_name=True, share=5, most=NAME_MOST),
        Column("state", "STATE", 7, lambda p, _: p.state, lambda p: float(POD_RANKS.get(p.state, 9))),
        number_column("gpus", "GPUS", 4, lambda p, _: amounts.plain_number(p.gpus), lambda p: p.gpus),
        number_column(
            "use",
            "USE",
            4,
            lambda p, _: _pod_use(p, amounts.percent(p.used_ratio)),
            lambda p: p.used_ratio,
            slack=RATIO_SLACK,
        ),
        number_column(
            "memory",
            "MEMORY",
            6,
            lambda p, _: _pod_use(p, amounts.gibibytes(p.memory_used_bytes)),
            lambda p: p.memory_used_bytes,
            slack=GIBIBYTE,
        ),
        number_column(
            "power",
            "POWER",
            6,
            lambda p, _: _pod_use(p, amounts.watts(p.power_watts)),
            lambda p: p.power_watts,
            drops=3,
            slack=50.0,
        ),
        Column(
            "age",
            "AGE",
            4,
            lambda p, now: amounts.age(p.created, now),
            lambda p: p.created,
            right=True,
            drops=2,
        ),
        Column("queue", "QUEUE", 14, lambda p, _: _or_none(p.queue), lambda p: p.queue, drops=4),
        Column(
            "place", "NODE OR REASON", 20, lambda p, _: _pod_place(p), lambda p: p.node or p.cause, share=4
        ),
    ),
    key=_path,
    tone=lambda p: Tone.WARN if p.state in {"held", "foreign"} else Tone.PLAIN,
    detail=lambda p: "" if p.node else _pod_place(p),
    words=lambda p: (_path(p), p.state, p.queue, p.node, p.cause),
    sort_by="state",
    empty="no pod asks for GPUs",
)


def _gang_members(line: GangLine, _: dt.datetime) -> str:
    return f"{line.members_placed}/{line.members_min or UNKNOWN}"


def _gang_why(line: GangLine) -> str:
    return _reason(line, _start(line)) or NONE


GANG: View[GangLine] = View(
    "gang",
    "gangs",
    (
        Column("name", "GANG", 24, lambda line, _: _path(line), _path, is_name=True, share=4, most=NAME_MOST),
        Column("state", "STATE", 7, lambda g, _: g.state, lambda g: float(GANG_RANKS.get(g.state, 9))),
        number_column("members", "PLACED", 7, _gang_members, lambda g: g.members_placed),
        number_column(
            "arrived", "CAME", 4, lambda g, _: str(g.members_arrived), lambda g: g.members_arrived, drops=3
        ),
        number_column("gpus", "GPUS", 4, lambda g, _: amounts.plain_number(g.gpus), lambda g: g.gpus),
        Column(
            "age",
            "AGE",
            4,
            lambda g, now: amounts.age(g.created, now),
            lambda g: g.created,
            right=True,
            drops=1,
        ),
        Column("queue", "QUEUE", 14, lambda g, _: _or_none(g.queue), lambda g: g.queue, drops=2),
        Column("why", "REASON", 22, lambda g, _: _gang_why(g), lambda g: g.cause, share=5),
    ),
    key=_path,
    tone=lambda g: Tone.BAD if g.state in {"in part", "held"} else Tone.PLAIN,
    detail=lambda g: "" if g.state == "runs" else _gang_why(g),
    words=lambda g: (_path(g), g.state, g.queue, g.cause),
    sort_by="state",
    empty="there are no gangs",
)


def _known(text: str | None) -> str:
    return UNKNOWN if text is None else _short(text)


def _if_any(text: str | None) -> str:
    """A figure that is mostly 0: then a dash."""
    return UNKNOWN if text is None else NONE if text == "0" else _short(text)


def _queue_why(line: QueueLine) -> str:
    return f"{_start(line)}{line.why}" or NONE


QUEUE: View[QueueLine] = View(
    "queue",
    "queues",
    (
        Column(
            "name",
            "QUEUE",
            18,
            lambda q, _: f"{'  ' * q.depth}{q.name}",
            lambda q: q.name,
            is_name=True,
            share=4,
            most=NAME_MOST,
        ),
        number_column("used", "USED", 6, lambda q, _: _known(q.used), lambda q: _amount(q.used)),
        number_column("quota", "QUOTA", 5, lambda q, _: _known(q.quota), lambda q: _amount(q.quota)),
        number_column(
            "borrowed",
            "BORROWED",
            8,
            lambda q, _: _if_any(q.borrowed),
            lambda q: _amount(q.borrowed),
            drops=2,
        ),
        number_column("lent", "LENT", 5, lambda q, _: _if_any(q.lent), lambda q: _amount(q.lent), drops=4),
        number_column(
            "fair", "FAIR", 6, lambda q, _: _known(q.fair_share), lambda q: _amount(q.fair_share), drops=1
        ),
        number_column(
            "waiting",
            "PENDING",
            7,
            lambda q, _: _if_any(None if q.pods_waiting is None else str(q.pods_waiting)),
            lambda q: q.pods_waiting,
        ),
        Column(
            "oldest",
            "OLDEST",
            6,
            lambda q, now: amounts.age(q.oldest, now) if q.oldest else NONE,
            lambda q: q.oldest,
            right=True,
            drops=3,
        ),
        Column("why", "WHY", 14, lambda q, _: _queue_why(q), lambda q: q.why, share=5),
    ),
    key=lambda q: q.name,
    tone=lambda q: Tone.PLAIN if q.is_active else Tone.BAD,
    detail=lambda q: _queue_why(q) if q.why or q.expected_start else "",
    words=lambda q: (q.name, q.why),
    sort_by="name",
    empty="there is no queue",
    is_tree=True,
)


IDLE: View[IdleLine] = View(
    "idle",
    "idle GPUs",
    (
        Column("name", "IDLE", 26, lambda line, _: _path(line), _path, is_name=True, share=5, most=NAME_MOST),
        Column("state", "STATE", 7, lambda i, _: i.state, lambda i: float(IDLE_RANKS.get(i.state, 9))),
        number_column("gpus", "GPUS", 4, lambda i, _: amounts.plain_number(i.gpus), lambda i: i.gpus),
        number_column(
            "since",
            "SEEN",
            5,
            lambda i, _: (
                NONE if i.state == "free" else UNKNOWN if i.idle_s is None else amounts.duration(i.idle_s)
            ),
            lambda i: i.idle_s,
            slack=60.0,
        ),
        number_column(
            "use",
            "USE",
            4,
            lambda i, _: NONE if i.state == "free" else amounts.percent(i.used_ratio),
            lambda i: i.used_ratio,
            slack=RATIO_SLACK,
        ),
        number_column(
            "memory",
            "MEMORY",
            6,
            lambda i, _: NONE if i.state == "free" else amounts.gibibytes(i.memory_used_bytes),
            lambda i: i.memory_used_bytes,
            slack=GIBIBYTE,
        ),
        number_column(
            "power",
            "POWER",
            6,
            lambda i, _: NONE if i.state == "free" else amounts.watts(i.power_watts),
            lambda i: i.power_watts,
            drops=2,
            slack=50.0,
        ),
        Column("queue", "QUEUE", 14, lambda i, _: _or_none(i.queue), lambda i: i.queue, drops=3),
        Column("node", "NODE", 12, lambda i, _: i.node, lambda i: i.node, share=3, drops=1),
    ),
    key=lambda i: _path(i) if i.namespace else f"node {i.name}",
    tone=lambda i: Tone.WARN if i.state == "empty" else Tone.PLAIN,
    detail=lambda _: "",
    words=lambda i: (_path(i), i.state, i.queue, i.node),
    sort_by="gpus",
    empty="no GPU is seen to be idle",
)

VIEWS: dict[str, View[Any]] = {one.name: one for one in (NODE, QUEUE, GANG, POD, IDLE)}
"""By the name on a command line, in the order of the keys 1 to 5."""
