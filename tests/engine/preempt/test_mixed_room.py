"""Hand-worked stories in which queues meet what nodes have: racks, models, strangers, parts, instances.

``test_mixed_stories`` says where the answers come from, and ``mixed_stories`` how stories are written.
"""

import pytest

from tests.engine.preempt.mixed_stories import Case, outcome

ROOM = [
    Case(
        "Kubernetes: the node with the fewest victims",
        "n=2 m=2",
        "a=4 b=0 c=0",
        ["two b 2*1 @n", "one c 1*2 @m"],
        "w a 1*2",
        "one=1",
    ),
    Case(
        "Kubernetes: the node whose victims have the lowest priority, though they are more",
        "n=2 m=2",
        "a=4 b=0 c=0",
        ["two b 2*1 p-1 @n", "one c 1*2 @m"],
        "w a 1*2",
        "two=2",
    ),
    Case(
        "By hand: of a large and a small pod the small one loses less work",
        "n=4",
        "a=4 b=0",
        ["big b 1*3", "small b 1*1"],
        "w a 1*1",
        "small=1",
    ),
    Case(
        "By hand: three GPUs on one node are in the hands of one pod",
        "n=4",
        "a=4 b=0",
        ["big b 1*3", "small b 1*1"],
        "w a 1*3",
        "big=1",
    ),
    Case(
        "By hand: a GPU of another model is of no use",
        "n=2/A100 m=2/H100",
        "a=4 b=0",
        ["cheap b 2*1 p-5 @n", "dear b 2*1 @m"],
        "w a 1*1 /H100",
        "dear=1",
    ),
    Case(
        "By hand: no part of a gang of four goes where two GPUs of that model are missing for ever",
        "n=2/A100 m=2/H100",
        "a=4 b=0",
        ["b b 4*1 @n,n,m,m"],
        "g a 4x1 /H100",
        "waits",
    ),
    Case(
        "KAI topology: a gang stays in one rack, so those in it go",
        "n=2@x m=2@x o=2@y",
        "a=6 b=0",
        ["bx b 1*1 @n"],
        "g a 2x2 rack",
        "bx=1",
    ),
    Case(
        "KAI topology: one of each node of the rack",
        "n=2@x m=2@x o=2@y",
        "a=6 b=0",
        ["bx b 1*1 @n", "by b 1*1 @m"],
        "g a 2x2 rack",
        "bx=1 by=1",
    ),
    Case(
        "KAI topology: the rack where lower priority runs",
        "n=2@x o=2@y",
        "a=4 b=0",
        ["high b 1*2 p1 @n", "low b 1*2 @o"],
        "g a 2x1 rack",
        "low=1",
    ),
    Case(
        "KAI topology: two halves of two racks are no room", "n=1@x m=1@y", "a=2", [], "g a 2x1 rack", "waits"
    ),
    Case("By hand: without a rack they are", "n=1@x m=1@y", "a=2", [], "g a 2x1", "starts"),
    Case(
        "By hand: a rack of which strangers hold one GPU has no room for two whoever goes",
        "n=2-1@x m=2@y",
        "a=4 b=0",
        ["bx b 1*1 p-5 @n", "by b 1*2 @m"],
        "g a 2x1 rack",
        "by=1",
    ),
    Case("By hand: strangers' GPUs are not free", "n=4-2", "a=4", [], "w a 1*3", "waits"),
    Case("By hand: beside them there is room for two", "n=4-2", "a=4", [], "g a 2x1", "starts"),
    Case("By hand: and what was borrowed there goes", "n=4-2", "a=4 b=0", ["b b 1*2"], "w a 1*2", "b=1"),
    Case("By hand: nobody goes in vain", "n=4-2", "a=4 b=0", ["b b 1*2"], "w a 1*3", "waits"),
]

TIMES_AND_PARTS = [
    Case(
        "KAI: reclaimMinRuntime of the queue that lent nothing",
        "n=4",
        "a=2 b=2(rafter=600)",
        ["b b 4*1 young"],
        "w a 1*1",
        "waits",
    ),
    Case("KAI: and once it is over", "n=4", "a=2 b=2(rafter=600)", ["b b 4*1"], "w a 1*1", "b=1"),
    Case(
        "By hand: of an old and a young one the old one goes, though it loses more",
        "n=4",
        "a=2 b=2(rafter=600)",
        ["old b 2*1", "new b 2*1 young"],
        "w a 1*1",
        "old=1",
    ),
    Case(
        "KAI minruntime: elastic work may shrink to its minimum before its time",
        "n=4",
        "a=2 b=2(rafter=600,eafter=0)",
        ["h b 4x1 min2 young"],
        "g a 2x1",
        "h=2",
    ),
    Case(
        "KAI minruntime: and not below it",
        "n=4",
        "a=4 b=0(rafter=600,eafter=0)",
        ["h b 4x1 min2 young"],
        "g a 3x1",
        "waits",
    ),
    Case("KAI: half of a GPU is half of its quota", "n=1", "a=1 b=0", ["b b 2*.5"], "w a 1*.5", "b=1"),
    Case("KAI: a whole GPU needs both halves", "n=1", "a=1 b=0", ["b b 2*.5"], "w a 1*1", "b=2"),
    Case("KAI: a gang of halves on one GPU", "n=1", "a=1 b=0", ["b b 1*1"], "g a 2x.5", "b=1"),
    Case(
        "KAI: the half of lower priority",
        "n=1",
        "a=1 b=0",
        ["low b 1*.5 p-1", "high b 1*.5 p1"],
        "w a 1*.5",
        "low=1",
    ),
    Case(
        "By hand: a GPU with one half on it costs one victim, one with two halves two",
        "n=1 m=1",
        "a=2 b=0",
        ["two b 2*.5 @n", "one b 1*.5 @m"],
        "w a 1*1",
        "one=1",
    ),
    Case(
        "By hand: a has half of one, so the borrowed half goes and not its own of lower priority",
        "n=1",
        "a=1 b=0",
        ["x a 1*.5 p-1", "b b 1*.5"],
        "w a 1*.5",
        "b=1",
    ),
    Case(
        "By hand: two halves on two GPUs are no whole one, and what leaves one of them is",
        "n=2",
        "a=2 b=0",
        ["b b 2*.5", "c b 1*1"],
        "g a 2x1",
        "b=2 c=1",
    ),
    Case(
        "Kueue: instances are a resource with quota",
        "n=0+mig2",
        "a=1 b=1",
        ["b b 2*1 mig"],
        "w a 1*1 mig",
        "b=1",
    ),
    Case("Kueue: and are borrowed", "n=0+mig2", "a=1 b=1", ["a a 1*1 mig"], "w a 1*1 mig", "starts"),
    Case(
        "By hand: instances of one queue do not make it a borrower of GPUs",
        "n=1+mig2",
        "a=1 b=1",
        ["i b 2*1 mig", "g b 1*1"],
        "w a 1*1",
        "waits",
    ),
    Case(
        "By hand: a gang of two instances takes back the two that were borrowed",
        "n=0+mig3",
        "a=2 b=1",
        ["b b 3*1 mig"],
        "g a 2x1 mig",
        "b=2",
    ),
]


@pytest.mark.parametrize(
    "case",
    [*ROOM, *TIMES_AND_PARTS],
    ids=lambda case: f"{case.why}: {case.asks}",
)
def test_what_comes_of_work_where_queues_meet_what_nodes_have(case: Case) -> None:
    assert outcome(case.nodes, case.queues, case.runs, case.asks) == case.comes
