"""An agent that starts anew knows of its cards what the one before it knew, or says that it does not."""

import errno
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gpufleet.agent.gpus.health_record import FILE, HealthRecord
from gpufleet.agent.gpus.monitored_gpu import NOT_ASKED, MonitoredGpu
from gpufleet.devices.facts import GpuFacts, MigFacts
from gpufleet.devices.health import QUIET_FIRST_S, Health, Recovery, Verdict
from gpufleet.devices.sample import Remaps, Sample
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.identifiers import DeviceId
from tests.agent.machine_room import Room, in_room
from tests.agent.test_gpu_monitor import WELL, but
from tests.agent.test_open_call_record import FailingDisk

BOOT = "boot-1"
PART = MigFacts("MIG-1", "1g.10gb", 0, 1, 0, 9856, 16)
FACTS = GpuFacts(DeviceId("GPU-1"), Vendor.NVIDIA, 0, "NVIDIA H100 80GB HBM3", mig=(PART,))
OTHER = GpuFacts(DeviceId("GPU-2"), Vendor.NVIDIA, 1, "NVIDIA H100 80GB HBM3")


def a_card(*codes: int, facts: GpuFacts = FACTS, now_s: float = 100.0) -> MonitoredGpu:
    """A card that answered and then reported these errors."""
    card = MonitoredGpu(facts)
    card.answered(Sample(now_s), {}, None, now_s)
    for code in codes:
        card.xid_seen(code, None, now_s)
    return card


def kept(folder: Path, *cards: MonitoredGpu, now_s: float = 100.0) -> Path:
    """A file with these cards."""
    HealthRecord(folder, BOOT).save([card.record for card in cards], now_s)
    return folder / FILE


def test_what_was_kept_is_there_again_and_readable_by_us_alone(tmp_path: Path) -> None:
    sick, well = a_card(79, 95), a_card(facts=OTHER)
    path = kept(tmp_path / "state", sick, well)
    assert HealthRecord(path.parent, BOOT).load() == (sick.record, well.record)
    assert path.stat().st_mode & 0o777 == 0o600


def test_another_boot_begins_anew(tmp_path: Path) -> None:
    kept(tmp_path, a_card(79))
    record = HealthRecord(tmp_path, "boot-2")
    assert (record.load(), record.doubt) == ((), "")


def test_a_machine_that_tells_no_boot_keeps_nothing(tmp_path: Path) -> None:
    record = HealthRecord(tmp_path, "")
    record.save([a_card(79).record], 0.0)
    assert (list(tmp_path.iterdir()), record.load()) == ([], ())


def test_without_a_file_nothing_is_in_doubt(tmp_path: Path) -> None:
    record = HealthRecord(tmp_path, BOOT)
    assert (record.load(), record.doubt) == ((), "")


@given(st.data())
def test_a_file_that_was_cut_or_changed_anywhere_is_not_believed(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = kept(Path(folder), a_card(79))
        whole = path.read_bytes()
        at = data.draw(st.integers(0, len(whole) - 1))
        flipped = bytes([whole[at] ^ (1 << data.draw(st.integers(0, 7)))])
        path.write_bytes(whole[:at] + data.draw(st.sampled_from([b"", flipped + whole[at + 1 :]])))
        record = HealthRecord(Path(folder), BOOT)
        assert record.load() == ()
        assert record.doubt.startswith("the record of its health ")


def test_doubt_outlives_a_restart_until_the_next_boot(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"torn")
    first = HealthRecord(tmp_path, BOOT)
    first.load()
    first.save([], 0.0)
    second = HealthRecord(tmp_path, BOOT)
    assert (second.load(), second.doubt) == ((), first.doubt)
    third = HealthRecord(tmp_path, "boot-2")
    third.load()
    assert third.doubt == ""


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("step", ["write", "sync", "move"])
def test_a_disk_that_fails_is_told_and_what_was_there_stays(tmp_path: Path, step: str, code: int) -> None:
    before = a_card()
    kept(tmp_path, before)
    record = HealthRecord(tmp_path, BOOT, FailingDisk(step, code))
    record.save([a_card(79).record], 101.0)
    assert errno.errorcode[code] in record.problem
    assert HealthRecord(tmp_path, BOOT).load() == (before.record,)
    record.disk = HealthRecord(tmp_path, BOOT).disk
    record.save([a_card(79).record], 102.0)
    assert record.problem == ""
    assert HealthRecord(tmp_path, BOOT).load() == (a_card(79).record,)


def test_it_is_written_when_health_changes_and_not_with_each_reading(tmp_path: Path) -> None:
    record, card = HealthRecord(tmp_path, BOOT), a_card()
    writes = []

    def look(now_s: float) -> None:
        (tmp_path / FILE).unlink(missing_ok=True)
        record.save([card.record], now_s)
        writes.append((tmp_path / FILE).exists())

    look(100.0)
    for now_s in range(101, 110):
        card.answered(Sample(now_s, energy_mj=now_s), {}, None, now_s)
        look(now_s)
    assert writes == [True] + 9 * [False]
    card.xid_seen(95, None, 110.0)
    look(110.0)
    card.missing(110.1)
    look(110.1)
    for now_s in range(111, 120):
        card.missing(now_s)
        look(now_s)
    assert writes[10:] == [True, True] + 9 * [False]


def test_an_error_that_comes_a_thousand_times_a_second_is_written_once_a_second(tmp_path: Path) -> None:
    record, card = HealthRecord(tmp_path, BOOT), a_card(95)
    record.save([card.record], 100.0)
    card.xid_seen(95, None, 100.5)
    record.save([card.record], 100.5)
    assert HealthRecord(tmp_path, BOOT).load()[0].health.last_evidence_s == 100.0
    record.save([card.record], 101.0)
    assert HealthRecord(tmp_path, BOOT).load()[0].health.last_evidence_s == 100.5


def test_a_card_is_not_called_well_before_it_was_asked_again() -> None:
    card = MonitoredGpu(FACTS, a_card().record, 200.0)
    assert (card.health.verdict, card.health.reason) == (Verdict.UNKNOWN, NOT_ASKED)
    card.answered(Sample(200.0), {}, None, 200.0)
    assert card.health.verdict is Verdict.HEALTHY


def test_a_reset_while_nobody_looked_is_known_by_counts_that_went_back() -> None:
    for before, after, verdict in ((500, 501, Verdict.UNHEALTHY), (500, 20, Verdict.HEALTHY)):
        card = MonitoredGpu(FACTS)
        card.answered(Sample(0.0, energy_mj=before), {}, None, 0.0)
        card.xid_seen(95, None, 0.0)
        again = MonitoredGpu(FACTS, card.record, QUIET_FIRST_S)
        again.answered(Sample(QUIET_FIRST_S, energy_mj=after), {}, None, QUIET_FIRST_S)
        assert again.health.verdict is verdict


def test_a_card_that_was_lost_and_came_back_while_nobody_looked_was_found_again() -> None:
    card = a_card(79)
    card.missing(100.0)
    again = MonitoredGpu(FACTS, card.record, 200.0)
    again.answered(Sample(200.0), {}, None, 200.0)
    assert "has to be quiet" in again.health.reason
    again.answered(Sample(200.0 + QUIET_FIRST_S), {}, None, 200.0 + QUIET_FIRST_S)
    assert again.health.verdict is Verdict.HEALTHY


def test_a_clock_that_began_anew_keeps_no_card_out_for_longer() -> None:
    again = MonitoredGpu(FACTS, a_card(9999, now_s=1e6).record, 5.0)
    again.answered(Sample(5.0 + QUIET_FIRST_S), {}, None, 5.0 + QUIET_FIRST_S)
    assert again.health.verdict is Verdict.HEALTHY


def test_an_instance_that_fails_after_its_card_was_reset_is_out_of_service() -> None:
    card = MonitoredGpu(FACTS)
    card.answered(Sample(0.0, resets=1), {PART.uuid: Sample(0.0)}, None, 0.0)
    card.xid_seen(95, PART.uuid, 0.0)
    card.answered(Sample(1.0, resets=1), {PART.uuid: Sample(1.0)}, None, 1.0)
    assert "Xid 95" in card.sick_instances()[PART.uuid]


def test_an_error_that_only_time_heals_is_not_forgotten_in_a_restart(tmp_path: Path) -> None:
    async def story(room: Room) -> None:
        room.machine.raise_xid("3", 9999)
        await room.after(10)
        await room.restart()
        assert room.verdicts() == but(3, Verdict.UNHEALTHY)
        assert "Xid 9999" in room.gpu(3).reason
        await room.after(QUIET_FIRST_S - 12)
        assert room.verdicts() == but(3, Verdict.UNHEALTHY)
        await room.after(4)
        assert room.verdicts() == WELL

    in_room(story, state=tmp_path)


def test_a_card_that_was_lost_before_or_while_nobody_looked_is_still_told_of(tmp_path: Path) -> None:
    async def story(room: Room) -> None:
        room.machine.lose("2")
        await room.after(1)
        await room.end()
        room.machine.gpus[room.gpu(5).uuid].lost = True
        room.begin("boot-1")
        await room.after(1)
        assert [gpu.facts.index for gpu in room.now.gpus] == list(range(8))
        assert [gpu.facts.index for gpu in room.now.gpus if gpu.health is Verdict.UNHEALTHY] == [2, 5]
        room.machine.reset("2")
        await room.after(QUIET_FIRST_S + 2)
        assert room.verdicts() == but(5, Verdict.UNHEALTHY)

    in_room(story, state=tmp_path)


def test_without_the_driver_the_cards_of_before_are_unknown_and_what_was_sick_is_sick(tmp_path: Path) -> None:
    async def story(room: Room) -> None:
        room.machine.raise_xid("1", 9999)
        await room.after(1)
        room.machine.break_driver("Driver/library version mismatch")
        await room.restart()
        verdicts = room.verdicts()
        assert verdicts.pop(1) is Verdict.UNHEALTHY
        assert verdicts == 7 * [Verdict.UNKNOWN]

    in_room(story, state=tmp_path)


def test_a_new_boot_forgets_what_was(tmp_path: Path) -> None:
    async def story(room: Room) -> None:
        room.machine.raise_xid("3", 9999)
        await room.after(1)
        await room.restart("boot-2")
        assert room.verdicts() == WELL

    in_room(story, state=tmp_path)


def test_with_a_torn_file_no_card_is_taken_for_well_and_none_is_sick_for_ever(tmp_path: Path) -> None:
    async def story(room: Room) -> None:
        (tmp_path / FILE).write_bytes((tmp_path / FILE).read_bytes()[:-7])
        await room.restart()
        assert room.verdicts() == 8 * [Verdict.UNHEALTHY]
        assert "the record of its health is damaged" in room.gpu(0).reason
        await room.restart()
        assert room.verdicts() == 8 * [Verdict.UNHEALTHY], "a second restart does not make them well"
        await room.after(QUIET_FIRST_S + 2)
        assert room.verdicts() == WELL
        await room.restart()
        assert room.verdicts() == WELL

    in_room(story, state=tmp_path)


def test_with_a_torn_file_what_the_api_remembers_counts(tmp_path: Path) -> None:
    async def story(room: Room) -> None:
        (tmp_path / FILE).write_bytes(b"")
        gone = DeviceId("GPU-that-is-gone")
        room.remembered = {room.gpu(3).uuid: (79,), gone: (48, 79)}
        await room.restart()
        assert "Xid 79" in room.gpu(3).reason
        assert list(room.now.problems) == [f"{gone} had Xid 48, 79 and is not found any more"]
        await room.after(10 * QUIET_FIRST_S)
        assert room.verdicts() == but(3, Verdict.UNHEALTHY)
        room.machine.reset("3")
        await room.after(QUIET_FIRST_S + 2)
        assert room.verdicts() == WELL

    in_room(story, state=tmp_path)


def test_a_disk_that_cannot_be_written_is_said_of_the_node(tmp_path: Path) -> None:
    async def story(room: Room) -> None:
        (tmp_path / FILE).unlink()
        (tmp_path / FILE).mkdir()
        room.machine.raise_xid("3", 9999)
        await room.after(1)
        assert room.verdicts() == but(3, Verdict.UNHEALTHY)
        assert "the health of GPUs is not written" in room.now.problems[0]

    in_room(story, state=tmp_path)


class RestartedAtAnyPoint(RuleBasedStateMachine):
    """One agent lives on, the other is started anew now and then; both see the same of one card."""

    @initialize()
    def begin(self) -> None:
        """A card that answers, of which both know the same."""
        self.folder = tempfile.TemporaryDirectory()
        self.now_s = 1000.0
        self.resets = self.resets_at_start = 0
        self.there = True
        self.steady, self.again = MonitoredGpu(FACTS), MonitoredGpu(FACTS)
        self.record = HealthRecord(Path(self.folder.name), BOOT)
        self.looked_at(None, remap_failed=False)

    def both(self, work: Callable[[MonitoredGpu, int], None]) -> None:
        """Let both take it in, with the resets that its driver has counted, and keep what one knows."""
        work(self.steady, self.resets)
        work(self.again, self.resets - self.resets_at_start)
        self.record.save([self.again.record], self.now_s)

    @rule(seconds=st.sampled_from([1.0, 10.0, 29.0, 31.0, 61.0, 3700.0, 7 * 3600.0]))
    def passes(self, seconds: float) -> None:
        """Time goes by."""
        self.now_s += seconds

    @rule(code=st.sampled_from([13, 43, 48, 79, 94, 95, 9999]), instance=st.sampled_from([None, PART.uuid]))
    def reports(self, code: int, instance: str | None) -> None:
        """The driver reports an error."""
        self.now_s += 1.0
        self.both(lambda card, _: card.xid_seen(code, instance, self.now_s))

    @rule()
    def vanishes(self) -> None:
        """The driver does not find it."""
        self.there = False
        self.both(lambda card, _: card.missing(self.now_s))

    @rule()
    def hangs(self) -> None:
        """It gives no answer."""
        self.both(lambda card, _: card.silent("no answer", self.now_s, forget_before_s=0.0))

    @rule()
    def is_reset(self) -> None:
        """It is reset, and looked at."""
        self.resets += 1
        self.there = True
        self.looked_at(Recovery.NONE, remap_failed=False)

    @precondition(lambda self: self.there)
    @rule(recovery=st.sampled_from([None, *Recovery]), remap_failed=st.booleans())
    def answers(self, recovery: Recovery | None, *, remap_failed: bool) -> None:
        """It answers and says how it is."""
        self.looked_at(recovery, remap_failed=remap_failed)

    def looked_at(self, recovery: Recovery | None, *, remap_failed: bool) -> None:
        """Both read the same of it."""

        def look(card: MonitoredGpu, resets: int) -> None:
            sample = Sample(self.now_s, recovery=recovery, remaps=Remaps(failed=remap_failed), resets=resets)
            card.answered(sample, {PART.uuid: Sample(self.now_s)}, None, self.now_s)

        self.both(look)

    @rule()
    def agent_is_started_anew(self) -> None:
        """The one reads its file, and looks at the card before it says a word."""
        self.record = HealthRecord(Path(self.folder.name), BOOT)
        (kept_of_it,) = self.record.load()
        self.again = MonitoredGpu(FACTS, kept_of_it, self.now_s)
        self.resets_at_start = self.resets
        if self.there:
            self.looked_at(None, remap_failed=False)
        else:
            self.vanishes()

    @invariant()
    def both_know_the_same(self) -> None:
        """The promise."""
        if hasattr(self, "again"):
            assert told(self.again) == told(self.steady)

    def teardown(self) -> None:
        """The folder goes."""
        if hasattr(self, "folder"):
            self.folder.cleanup()


def told(card: MonitoredGpu) -> tuple[Verdict, str, dict[str, str], Health]:
    """All that is said of a card, and all that will follow from its past."""
    silent_now_or_not = msgspec.structs.replace(card.health, silent="")
    return card.health.verdict, card.health.reason, card.sick_instances(), silent_now_or_not


TestRestartedAtAnyPoint = RestartedAtAnyPoint.TestCase
