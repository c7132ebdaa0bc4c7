"""Hand-worked stories in which features meet: gangs, trees of queues, priorities, racks, instances, parts.

Each names where its answer comes from. Kueue: its concepts page on preemption and the documents of fair
sharing and of cohorts. KAI: its documents on fairness, elastic work and the minruntime plugin. Volcano: its
documents of the capacity plugin and of gang preemption. "By hand" are sums that the comment spells out.
``mixed_stories`` has the words in which the stories are written.
"""

import pytest

from tests.engine.preempt.mixed_stories import Case, outcome

GANGS_AND_COHORTS = [
    Case(
        "Kueue: reclaimWithinCohort takes as much as is owed", "n=4", "a=2 b=2", ["b b 4*1"], "g a 2x1", "b=2"
    ),
    Case("Kueue: beyond nominal nothing is reclaimed", "n=4", "a=2 b=2", ["b b 4*1"], "g a 3x1", "waits"),
    Case(
        "Kueue: the lender keeps its nominal quota, so the two that it borrowed are one too few for three",
        "n=4",
        "a=2(borrow=any) b=2",
        ["b b 4*1"],
        "g a 3x1",
        "waits",
    ),
    Case(
        "Kueue: borrowers of the cohort go before lower priority of the own queue",
        "n=4",
        "a=2 b=2",
        ["x a 1*1 p-1", "b b 3*1"],
        "w a 1*1",
        "b=1",
    ),
    Case(
        "Kueue: within full nominal quota only own lower priority is left",
        "n=4",
        "a=2 b=2",
        ["x a 2*1 p-1", "b b 2*1"],
        "w a 1*1",
        "x=1",
    ),
    Case("Kueue: a workload is evicted whole", "n=4", "a=2 b=2", ["h b 4x1"], "w a 1*1", "h=4"),
    Case("KAI: elastic pods above minMember go first", "n=4", "a=2 b=2", ["h b 4x1 min2"], "w a 1*1", "h=1"),
    Case("KAI: and as many as it takes", "n=4", "a=2 b=2", ["h b 4x1 min2"], "g a 2x1", "h=2"),
    Case(
        "KAI: where they do not suffice the whole gang goes, though its queue then has less than it owns",
        "n=4",
        "a=2 b=2",
        ["h b 4x1 min3"],
        "g a 2x1",
        "h=4",
    ),
    Case(
        "Kueue: candidates of lower priority first",
        "n=4",
        "a=2 b=2",
        ["low b 2*1 p-1", "high b 2*1 p1"],
        "w a 1*1",
        "low=1",
    ),
    Case(
        "Kueue: and both of them for a gang of two",
        "n=4",
        "a=2 b=2",
        ["low b 2*1 p-1", "high b 2*1 p1"],
        "g a 2x1",
        "low=2",
    ),
    Case(
        "Kueue: reclaimWithinCohort LowerPriority spares a higher one",
        "n=4",
        "a=2(reclaim=lower) b=2",
        ["high b 4*1 p1"],
        "w a 1*1",
        "waits",
    ),
    Case(
        "Kueue: and reaches the lower ones beside it",
        "n=4",
        "a=2(reclaim=lower) b=2",
        ["low b 2*1 p-1", "high b 2*1 p1"],
        "g a 2x1",
        "low=2",
    ),
    Case(
        "Kueue: reclaimWithinCohort Never", "n=4", "a=2(reclaim=never) b=2", ["b b 4*1"], "g a 2x1", "waits"
    ),
    Case(
        "KAI: the queue of lower priority gives first, though the other has more over quota",
        "n=4",
        "all=2 a=2 b=0(p=1) c=0",
        ["b b 3*1", "c c 1*1"],
        "w a 1*1",
        "c=1",
    ),
    Case(
        "Kueue: of two departments the one above its quota gives; in it the queue that borrows",
        "n=4",
        "a=2 d/near=2 d/far=0",
        ["near near 2*1", "far far 1*1", "own a 1*1"],
        "w a 1*1",
        "far=1",
    ),
    Case(
        "Kueue: two queues that borrow inside one department give one each, and keep what they own",
        "n=4",
        "a=2 d/near=1 d/far=1",
        ["near near 2*1", "far far 2*1"],
        "g a 2x1",
        "far=1 near=1",
    ),
    Case(
        "Kueue: a queue within its own quota is no candidate beside a sibling that borrows as one gang",
        "n=4",
        "a=2 d/near=1 d/far=1",
        ["near near 3x1", "far far 1*1"],
        "w a 1*1",
        "near=3",
    ),
    Case(
        "By hand: four of four are owed, two of each of two queues go",
        "n=4",
        "a=4 b=0 c=0",
        ["b b 2*1", "c c 2*1"],
        "g a 4x1",
        "b=2 c=2",
    ),
    Case(
        "Volcano: a bundle of pods that leaves each gang whole goes before a whole gang",
        "n=4",
        "all=2 a=2 b=0 c=0",
        ["h b 2x1", "c c 2*1"],
        "g a 2x1",
        "c=2",
    ),
    Case(
        "Volcano: surplus of one gang goes before a whole gang of another queue",
        "n=4",
        "all=3 a=1 b=0 c=0",
        ["h b 2x1", "e c 2x1 min1"],
        "w a 1*1",
        "e=1",
    ),
    Case(
        "By hand: of three in a queue below a department two were borrowed, and both go for a gang",
        "n=3",
        "a=2 d/x=1",
        ["x x 3*1"],
        "g a 2x1",
        "x=2",
    ),
]

BORROWING = [
    Case("Kueue: what is idle may be borrowed", "n=4", "a=2 b=2", ["a a 2*1"], "g a 2x1", "starts"),
    Case("Kueue: borrowingLimit", "n=4", "a=2(limit=1) b=2", ["a a 2*1"], "g a 2x1", "waits"),
    Case("Kueue: within borrowingLimit", "n=4", "a=2(limit=1) b=2", ["a a 2*1"], "w a 1*1", "starts"),
    Case("Kueue: lendingLimit", "n=4", "a=2 b=2(lend=0)", ["a a 2*1"], "w a 1*1", "waits"),
    Case("Kueue: a part is lent", "n=4", "a=2 b=2(lend=1)", ["a a 2*1"], "w a 1*1", "starts"),
    Case("Kueue: and no more", "n=4", "a=2 b=2(lend=1)", ["a a 2*1"], "g a 2x1", "waits"),
    Case("Volcano: capability is a hard limit", "n=4", "a=2(hard=2) b=2", ["a a 2*1"], "w a 1*1", "waits"),
    Case(
        "By hand: a gang that may start with two is let in with what its queue may borrow",
        "n=4",
        "a=1(limit=1) b=3",
        [],
        "g a 4x1 min2",
        "starts",
    ),
    Case(
        "Kueue fair sharing: the share that it gets is not above the one that is left (1 of its weight each)",
        "n=4",
        "all=2 a=1(borrow=any) b=1",
        ["a a 1*1", "b b 3*1"],
        "w a 1*1",
        "b=1",
    ),
    Case(
        "Kueue fair sharing: shares of 1 and 1 do not become 2 and 0",
        "n=4",
        "all=2 a=1(borrow=any) b=1",
        ["a a 2*1", "b b 2*1"],
        "w a 1*1",
        "waits",
    ),
    Case(
        "KAI: over quota goes to the queue of higher priority first",
        "n=4",
        "all=2 a=1(borrow=any,p=1) b=1",
        ["a a 2*1", "b b 2*1"],
        "w a 1*1",
        "b=1",
    ),
    Case(
        "Kueue: borrowWithinCohort LowerPriority spares equals",
        "n=4",
        "all=2 a=1(borrow=lower) b=1",
        ["a a 1*1", "b b 3*1"],
        "w a 1*1",
        "waits",
    ),
    Case(
        "Kueue: borrowWithinCohort LowerPriority reaches lower ones",
        "n=4",
        "all=2 a=1(borrow=lower) b=1",
        ["a a 1*1 p1", "b b 3*1"],
        "w a 1*1 p1",
        "b=1",
    ),
    Case(
        "Kueue fair sharing: with twice the weight a share of 2/2 is not above one of 1",
        "n=5",
        "all=3 a=1(borrow=any,w=2) b=1",
        ["a a 2*1", "b b 3*1"],
        "w a 1*1",
        "b=1",
    ),
    Case(
        "By hand: where it would borrow, own lower priority goes before that of others",
        "n=4",
        "all=2 a=1(borrow=any) b=1",
        ["x a 1*1 p-1", "b b 3*1"],
        "w a 1*1",
        "x=1",
    ),
    Case(
        "By hand: protected work may not borrow, so with two of two it waits though GPUs are idle",
        "n=4",
        "a=2 b=2",
        ["a a 2*1 never"],
        "w a 1*1 never",
        "waits",
    ),
    Case(
        "By hand: and beside it ordinary work borrows",
        "n=4",
        "a=2 b=2",
        ["a a 2*1 never"],
        "w a 1*1",
        "starts",
    ),
    Case(
        "By hand: protected work is owed two; the two that were borrowed go",
        "n=4",
        "a=2 b=2",
        ["b b 4*1"],
        "g a 2x1 never",
        "b=2",
    ),
    Case("By hand: what is never evicted stays", "n=4", "a=2 b=2", ["b b 4*1 never"], "w a 1*1", "waits"),
    Case("Kubernetes: preemptionPolicy Never", "n=4", "a=2 b=2", ["b b 4*1"], "w a 1*1 polite", "waits"),
    Case(
        "By hand: d owns two and has one and w: e goes, which borrowed; of x, beside it, y could only borrow",
        "n=2",
        "d=2 d/x=0 d/y=0(borrow=any,p=1) e=0(p=1)",
        ["x x 1*1", "e e 1*1"],
        "w y 1*1",
        "e=1",
    ),
]

OWN_WORK = [
    Case("Kueue: withinClusterQueue LowerPriority", "n=2", "a=2", ["x a 2*1"], "w a 1*1 p1", "x=1"),
    Case("Kueue: equals stay", "n=2", "a=2", ["x a 2*1"], "w a 1*1", "waits"),
    Case("Kueue: withinClusterQueue Never", "n=2", "a=2(in=never)", ["x a 2*1"], "w a 1*1 p1", "waits"),
    Case("Kueue: two lower ones for a gang of two", "n=2", "a=2", ["x a 2*1"], "g a 2x1 p1", "x=2"),
    Case("KAI: a gang of lower priority goes whole", "n=2", "a=2", ["x a 2x1"], "w a 1*1 p1", "x=2"),
    Case("KAI: an elastic one shrinks", "n=2", "a=2", ["x a 2x1 min1"], "w a 1*1 p1", "x=1"),
    Case(
        "Kueue: LowerOrNewerEqualPriority reaches what came later",
        "n=2",
        "a=2(in=newer)",
        ["old a 1*1", "new a 1*1 late"],
        "w a 1*1",
        "new=1",
    ),
    Case(
        "Kubernetes: of several the lowest priority, though the other lost less",
        "n=2",
        "a=2",
        ["low a 1*1 p-2", "mid a 1*1 p-1 young"],
        "w a 1*1",
        "low=1",
    ),
    Case(
        "Kubernetes: one large pod of lower priority rather than two of the middle",
        "n=2 m=2",
        "a=4",
        ["low a 1*2 p-2 @n", "mid a 2*1 p-1 @m"],
        "w a 1*2",
        "low=1",
    ),
    Case(
        "KAI: the minimum run time of the own queue protects from the own queue",
        "n=2",
        "a=2(pafter=600)",
        ["x a 2*1 young"],
        "w a 1*1 p1",
        "waits",
    ),
    Case(
        "KAI: and not from a queue that is owed",
        "n=2",
        "a=0(pafter=600) b=2",
        ["x a 2*1 young"],
        "w b 1*1",
        "x=1",
    ),
]


@pytest.mark.parametrize(
    "case",
    [*GANGS_AND_COHORTS, *BORROWING, *OWN_WORK],
    ids=lambda case: f"{case.why}: {case.asks}",
)
def test_what_comes_of_work_where_features_meet(case: Case) -> None:
    assert outcome(case.nodes, case.queues, case.runs, case.asks) == case.comes
