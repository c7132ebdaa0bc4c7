"""Which GPUs of a machine are asked about, by simulated machines in place of its drivers."""

import json

import pytest

from gpufleet.advise.fit.on_machine import MachineAnswer, ask_machine, ask_what_runs
from gpufleet.cli.main import main
from gpufleet.devices.simulated.backend import SimulatedBackend
from gpufleet.devices.simulated.description import read_description
from gpufleet.devices.simulated.machine import Machine, User
from gpufleet.fit.answer import FitVerdict
from gpufleet.fit.catalogue import find_cards
from gpufleet.fit.options import Options
from gpufleet.fit.running_well import WELL_TOKENS_PER_S
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


def test_what_runs_on_the_machine_is_listed_by_the_names_that_programs_fetch() -> None:
    """One RTX 4060 of 8 GB: Llama 3.1 8B in 4 bits with Ollama, whose 4.4 GiB are read 57 times a second at
    272 GB/s. vLLM is unsure there: it leaves 0.8 GiB, and a desktop may hold 1.
    """
    found = ask_what_runs(
        Options(model=""), [backend_of("gpus: [{model: RTX-4060, memoryMiB: 8188, reservedMiB: 300}]")]
    )
    ways = {way.name: way for model in found.models for way in model.ways}
    assert {way.program for way in ways.values()} == {"ollama"}
    llama = ways["llama3.1:8b"]
    assert (llama.program, llama.weights, llama.gpus) == ("ollama", "q4_k_m", 1)
    assert llama.estimated_tokens_per_s == pytest.approx(272e9 / (4.4 * (1 << 30)), rel=0.05)
    assert "llama3.3:70b" not in ways
    assert all(way.estimated_tokens_per_s >= WELL_TOKENS_PER_S for way in ways.values())


@pytest.mark.parametrize("card", ["RX-9060-XT-16GB", "Flex-170"])
def test_machines_of_each_maker_are_answered(card: str) -> None:
    found = ask_what_runs(Options(model=""), [backend_of(f"gpus: [{{model: {card}, count: 2}}]")])
    assert [(one.model, one.gpus_per_node_max) for one in found.cards] == [(card, 2)]
    sizes = [model.parameters for model in found.models]
    assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) > 20


def test_two_kinds_of_card_in_one_machine_are_tried_alone_and_together() -> None:
    both = "gpus: [{model: RTX-3090}, {model: RTX-4090}]"
    names = [card.gpu for card in asked(both, "qwen3-8b").answer.cards]
    assert names == ["RTX-3090", "RTX-4090", "1 x RTX-3090 + 1 x RTX-4090"]


def test_a_machine_without_gpus_says_what_its_drivers_said() -> None:
    broken = Machine(read_description(ONE), lambda: 0.0, list)
    broken.driver_problem = "Driver/library version mismatch"
    with pytest.raises(InputError, match=r"no whole GPU.*version mismatch"):
        ask_what_runs(Options(model=""), [SimulatedBackend(broken)])


def test_the_list_is_a_table_and_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gpufleet.advise.fit.on_machine.own_backends", lambda: [backend_of(ONE)])
    assert main(["fit", "--here"]) == 0
    text = capsys.readouterr().out
    assert "1 x H100-80GB, 79.2 GiB and 3350 GB/s each" in text
    assert "estimate" in text
    assert main(["fit", "--here", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["found"]["models"][0]["ways"]


@pytest.mark.parametrize("beside", [["--cluster"], ["--train", "lora"], ["--manifest"]])
def test_it_is_asked_of_one_place_and_for_a_server(
    beside: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", "llama-3.1-8b", "--here", *beside]) == 2
    assert "--here" in capsys.readouterr().err
