"""A case is made smaller by leaving things out, and stays a case."""

from tests.differential.cases import name_of
from tests.differential.generator import make_case
from tests.differential.shrinking import cuts, without


def test_every_cut_leaves_less_and_nothing_that_hangs_in_the_air() -> None:
    for number in range(30):
        case = make_case(1, number)
        for cut in cuts(case):
            smaller = without(case, (cut,), "case-smaller")
            assert smaller != case.renamed("case-smaller")
            nodes = smaller.nodes
            pods = [one for one in smaller.objects if one["kind"] == "Pod"]
            lost = {one["spec"]["nodeName"] for one in pods} - nodes
            assert lost <= {"case-smaller-gone"}


def test_cuts_that_overlap_can_be_made_together() -> None:
    case = make_case(1, 3)
    smaller = without(case, tuple(cuts(case)), "case-smaller")
    assert not smaller.nodes


def test_a_renamed_case_shares_no_name_with_the_other() -> None:
    case = make_case(1, 3)
    other = case.renamed("case-other")
    assert {name_of(one) for one in case.objects}.isdisjoint(name_of(one) for one in other.objects)
    assert other.renamed(case.token) == case


def test_the_same_seed_makes_the_same_case() -> None:
    assert make_case(5, 8) == make_case(5, 8)
    assert make_case(5, 8) != make_case(6, 8)
