"""The page about the doctor lists every check, and says nothing of others."""

import re

from gpufleet.doctor.check import Grade, Point
from gpufleet.doctor.checks import all_checks
from tests.conventions.project import ROOT


def rows(point: Point) -> str:
    """The part of the page about a point."""
    risk = {Grade.RISK: " *(risk)*", Grade.BROKEN: ""}
    lines = [
        f"| `{one.id}` | {one.title}{risk[one.grade]} | {one.why} |\n"
        for one in all_checks()
        if one.point is point
    ]
    head = f"### {point.number}. {point.title}\n\n| check | what is so where it is right | why it matters |\n"
    return f"{head}| --- | --- | --- |\n{''.join(lines)}"


def test_the_page_tells_of_each_check_in_its_own_words() -> None:
    page = (ROOT / "docs" / "doctor.md").read_text(encoding="utf-8")
    expected = "\n".join(map(rows, Point))
    assert page.endswith(f"\n{expected}"), f"the end of docs/doctor.md ought to be:\n{expected}"
    assert len(re.findall(r"^\| `[a-z-]+` \|", page, flags=re.MULTILINE)) >= len(all_checks())
