"""The queues are readable at a glance, in any terminal, and the same for programs.

The figures are those of the engine over a simulated cluster; what is expected was worked out by hand.
"""

import json

import msgspec
import pytest

from gpufleet.cli.main import main
from gpufleet.cli.queues_output import TableLayout, lines, show
from gpufleet.cli.queues_table import Glyphs
from gpufleet.explain.queue_answer import (
    SCHEMA,
    AnswerSource,
    PolicyRow,
    Problem,
    QueueRow,
    QueuesAnswer,
    WaitingRow,
)
from gpufleet.explain.queue_inquiry import only
from gpufleet.explain.queue_phrases import plain
from gpufleet.model.model_errors import InputError
from gpufleet.model.visible import visible_line
from tests.explain.test_seeing_queues import add_queue, crowded, quota, seen
from tests.scheduler.world import World, in_world

TREE = """\
QUEUE  USED GPU  QUOTA  BORROWED  LENT  FAIR SHARE  SHARE  PENDING  WHY
root          8      8         -     -           8      0        -
├─ a          6      4         2     -           5   0.25        -
├─ b          1      2         -     1           1      0        -
└─ c          1      2         -     1           2      0        1  1 quota
spare         0     16         -     -           0      0        -  held
spare: Held: the queue is held: nothing starts, what runs goes on
"""

BARS = """\
QUEUE  USED GPU  QUOTA              BORROWED  FAIR SHARE  PENDING  WHY
root          8      8  ##########         -           8        -
|- a          6      4  ######++++         2           5        -
|- b          1      2  #####.....         -           1        -
`- c          1      2  #####.....         -           2        1  1 quota
spare         0     16  ..........         -           0        -  held
spare: Held: the queue is held: nothing starts, what runs goes on
"""

ONE = """\
queue c, below root: Open, in force; priority 0, weight 1, ordering BestEffort
  may evict: its own work Never, for what it is owed Never, to borrow Never
  namespaces: default, vision

QUEUE  USED GPU  QUOTA  BORROWED  LENT  FAIR SHARE  SHARE  PENDING  WHY
c             1      2         -     1           2      0        1  1 quota

POSITION  WAITS                PODS  PRIORITY  REASON  CREATED
       1  pod default/c-waits     1         0  quota   2026-01-01T00:00:40Z
"""


@pytest.fixture(scope="module")
def answer() -> QueuesAnswer:
    """Three teams on eight GPUs, and a queue that is held."""
    found: list[QueuesAnswer] = []

    async def story(world: World) -> None:
        add_queue(world, "spare", quotas=quota(16), state="Held")
        await crowded(world, namespaces=["default", "vision"])
        found.append(await seen(world))

    in_world(story)
    return found[0]


def text(answer: QueuesAnswer, look: TableLayout, one: str = "") -> str:
    return "".join(f"{line.text}\n" for line in lines(answer, look, one=one))


def test_a_row_is_a_queue_below_its_parent(answer: QueuesAnswer) -> None:
    assert text(answer, TableLayout()) == TREE


def test_a_terminal_gets_bars_and_loses_columns_where_it_is_narrow(answer: QueuesAnswer) -> None:
    narrow = TableLayout(bars=True, glyphs=Glyphs.of_ascii(), width=76)
    assert text(answer, narrow) == BARS
    assert max(map(len, text(answer, TableLayout(bars=True, width=40)).splitlines()[:6])) <= 40


def test_one_queue_is_shown_with_its_policies_and_who_waits(answer: QueuesAnswer) -> None:
    assert text(only(answer, "c"), TableLayout(), "c") == ONE


def test_a_queue_that_has_run_times_learned_says_so() -> None:
    row = QueueRow("a", policy=PolicyRow(learn_run_times=True))
    found = text(QueuesAnswer(SCHEMA, AnswerSource.STATUS, "", (row,)), TableLayout(), "a")
    assert "  run times: learned, for work that does not say its own\n" in found


def test_a_queue_that_takes_back_by_the_work_lost_says_so() -> None:
    row = QueueRow("a", policy=PolicyRow(victim_order="WorkLostFirst"))
    answer = QueuesAnswer(SCHEMA, AnswerSource.STATUS, "", (row,))
    assert "  others' work by: the least GPU time lost, whichever queue has borrowed" in text(
        answer, TableLayout(), "a"
    )
    assert "owed Any, beyond Never, by work lost" in text(answer, TableLayout(wide=True))


def test_work_that_waits_for_nodes_tells_its_cause() -> None:
    waits = WaitingRow("pod", "default", "p", 1, 0, "nodes", 1, cause="gpu-busy")
    answer = QueuesAnswer(SCHEMA, AnswerSource.ENGINE, "", (QueueRow("team", waiting=(waits,)),))
    assert "nodes (gpu-busy)" in text(answer, TableLayout(), "team")


def test_all_that_is_known_is_wide(answer: QueuesAnswer) -> None:
    wide = text(answer, TableLayout(wide=True)).splitlines()
    assert wide[0].endswith(
        "AVAILABLE  BORROW MAX  LEND MAX  HARD MAX  PROTECTED  PRIORITY  WEIGHT  ORDER       "
        "MAY EVICT                                  NAMESPACES"
    )
    assert "own LowerPriority, owed Any, beyond Never" in wide[1]
    assert wide[4].split()[:8] == ["└─", "c", "1", "2", "-", "1", "2", "0"]


def test_a_resource_is_chosen_by_name(answer: QueuesAnswer) -> None:
    with pytest.raises(InputError, match="did you mean gpu"):
        text(answer, TableLayout("gpus"))


def test_json_and_yaml_say_the_same(answer: QueuesAnswer, capsys: pytest.CaptureFixture[str]) -> None:
    show(answer, "json", "", "never")
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["source"]) == (SCHEMA, "engine")
    c = next(one for one in found["queues"] if one["name"] == "c")
    assert (c["parent"], c["resources"][0]["lent"], c["pending"]) == (
        "root",
        "1",
        [{"reason": "quota", "pods": 1}],
    )
    assert (c["waiting"][0]["position"], c["waiting"][0]["name"]) == (1, "c-waits")
    show(answer, "yaml", "", "never")
    assert msgspec.yaml.decode(capsys.readouterr().out) == found


def test_colour_is_for_terminals_only(answer: QueuesAnswer, capsys: pytest.CaptureFixture[str]) -> None:
    show(answer, "text", "", "never")
    plainly = capsys.readouterr().out
    assert plainly == TREE
    show(answer, "text", "", "always")
    assert "\x1b[33m├─ a" in capsys.readouterr().out


def test_twenty_teams_fit_on_a_screen() -> None:
    teams = [QueueRow(f"team-{number:02}", "root") for number in range(20)]
    every = QueuesAnswer(SCHEMA, AnswerSource.ENGINE, "", (QueueRow("root"), *teams))
    assert len(list(lines(every, TableLayout(bars=True, width=80)))) <= 24


def test_deep_trees_and_hostile_names_stay_lines() -> None:
    rows = [QueueRow("q0"), *(QueueRow(f"q{number}", f"q{number - 1}") for number in range(1, 1000))]
    every = QueuesAnswer(SCHEMA, AnswerSource.STATUS, "", tuple(rows))
    assert len(list(lines(every, TableLayout(width=80)))) == 1001
    broken = QueueRow("q", active=False, problems=(Problem("Malformed", "a\x1b[2J\nb"),))
    (*_, last) = lines(QueuesAnswer(SCHEMA, AnswerSource.STATUS, "", (broken,)), TableLayout())
    assert visible_line(last.text) == "q: Malformed: a\\x1b[2J\\nb"


def test_amounts_are_numbers_that_people_read() -> None:
    assert [plain(amount) for amount in ("17500m", "8", "80Gi", "0", "250m")] == [
        "17.5",
        "8",
        "80Gi",
        "0",
        "0.25",
    ]


def test_without_a_cluster_the_error_says_how_to_have_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/nothing")
    assert main(["queues"]) in {2, 3}
    assert "gpufleet up" in capsys.readouterr().err
