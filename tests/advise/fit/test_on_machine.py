"""Which GPUs of a machine are asked about, by simulated machines in place of its drivers."""

import pytest

from gpufleet.advise.fit.on_machine import MachineAnswer, ask_machine
from gpufleet.cli.main import main
from gpufleet.devices.simulated.backend import SimulatedBackend
from gpufleet.devices.simulated.description import read_description
from gpufleet.devices.simulated.machine import Machine, User
from gpufleet.fit.answer import FitVerdict
from gpufleet.fit.catalogue import find_cards
from gpufleet.fit.options import Options
from gpufleet.model.model_errors import InputError

FOUR = "gpus: [{model: H100-80GB, count: 4}]"
ONE = "gpus: [{model: H100-80GB}]"
CUT = "gpus: [{model: A100-40GB, mig: [{profile: 3g.20gb, start: 4}]}]"


def asked(text: str, model: str, *, held_mib: int = 0, gpus: tuple[str, ...] = ()) -> MachineAnswer:
    """The answer on this machine, where a process holds so much of the first GPU."""
    users: list[User] = []
    machine = Machine(read_description(text), lambda: 0.0, lambda: users)
    broken = Machine(read_description(text), lambda: 0.0, list)
    broken.driver_problem = "Driver/library version mismatch"
    backend = SimulatedBackend(machine)
    users += [User(7, backend.fleet().gpus[0].uuid, memory_mib=held_mib)]
    return ask_machine(Options(model=model, gpus=gpus), [SimulatedBackend(broken), backend])


def backend_of(text: str) -> SimulatedBackend:
    return SimulatedBackend(Machine(read_description(text), lambda: 0.0, list))


def verdicts(found: MachineAnswer) -> list[tuple[str, int, FitVerdict]]:
    return [(card.gpu, card.gpus, card.verdict) for card in found.answer.cards]


def test_the_cards_of_the_machine_are_tried_and_no_others() -> None:
    found = asked(ONE, "llama-3.1-8b")
    assert verdicts(found) == [("H100-80GB", 1, FitVerdict.YES)]
    assert found.left_out == ()


def test_no_more_gpus_are_promised_than_there_are() -> None:
    assert verdicts(asked(FOUR, "llama-3.3-70b")) == [("H100-80GB", 4, FitVerdict.YES)]
    assert asked(ONE, "llama-3.3-70b").answer.cards[0].verdict is FitVerdict.NO
    with pytest.raises(InputError, match="fewer GPUs"):
        ask_machine(Options(model="llama-3.3-70b", tensor_parallel=4), [backend_of(ONE)])


def test_a_gpu_on_which_a_program_computes_is_left_out_and_said() -> None:
    found = asked(FOUR, "llama-3.3-70b", held_mib=20_000)
    assert found.answer.cards[0].verdict is not FitVerdict.YES
    assert [line.endswith("programs hold 20,000 MiB of it") for line in found.left_out] == [True]
    assert asked(FOUR, "llama-3.3-70b", held_mib=500).left_out == ()


def test_what_the_driver_counts_makes_a_card_smaller_and_never_larger() -> None:
    usable = find_cards("H100-80GB")[0].usable_mib
    small = asked("gpus: [{model: H100-80GB, memoryMiB: 40000, reservedMiB: 500}]", "llama-3.1-8b")
    assert small.answer.cards[0].memory.usable_bytes == 39_500 << 20
    large = asked("gpus: [{model: H100-80GB, memoryMiB: 90000}]", "llama-3.1-8b")
    assert large.answer.cards[0].memory.usable_bytes == usable << 20


def test_what_is_cut_or_was_not_named_is_not_asked_about() -> None:
    with pytest.raises(InputError, match="no whole GPU of a known model"):
        asked(CUT, "llama-3.1-8b")
    with pytest.raises(InputError, match="that was named"):
        asked(ONE, "llama-3.1-8b", gpus=("a100-80",))


@pytest.mark.parametrize("beside", [["--cluster"], ["--train", "lora"], ["--manifest"]])
def test_it_is_asked_of_one_place_and_for_a_server(
    beside: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", "llama-3.1-8b", "--here", *beside]) == 2
    assert "--here" in capsys.readouterr().err
