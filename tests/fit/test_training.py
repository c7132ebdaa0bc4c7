"""Training: the figures of the papers, and what follows from them."""

import pytest

from gpufleet.advise.fit.ask import ask_training, cards_of, model_of
from gpufleet.fit.answer import FitVerdict, Training
from gpufleet.fit.options import Options
from gpufleet.fit.training import Course, memory_of, state_bytes
from gpufleet.model.model_errors import InputError


@pytest.mark.parametrize(("zero", "gigabytes"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_states_are_those_of_the_paper(zero: int, gigabytes: float) -> None:
    """ZeRO, arXiv 1910.02054, figure 1: 7.5 B parameters on 64 GPUs."""
    assert state_bytes(7.5e9, zero, 64) / 1e9 == pytest.approx(gigabytes, rel=0.02)


def test_adapters_are_as_many_as_the_paper_of_lora_counts() -> None:
    """Rank 8 on queries, keys, values, outputs and feed-forward of Llama 2 7B, by hand: 32 layers x 8 x
    (4 x (4096 + 4096) + 3 x (4096 + 11008)).
    """
    answer = ask_training(Options("llama-2-7b", ("a100-80",)), "lora", 3, 8)
    assert answer.trained_parameters == 32 * 8 * (4 * 8192 + 3 * 15104)


def test_trained_tables_are_copies_with_states_of_their_own() -> None:
    """Llama 3.1 8B: two tables of 128256 x 4096, of 16 bytes each weight, 15.7 GiB: too much for an L4 that
    does without them, and enough room on an H100.
    """

    def asked(gpu: str, *, trains_tables: bool) -> Training:
        options = Options("llama-3.1-8b", (gpu,), context=512)
        return ask_training(options, "qlora", 3, 16, trains_tables=trains_tables).cards[0]

    without, beside = (asked("h100-80", trains_tables=one) for one in (False, True))
    more = beside.memory.states.bytes - without.memory.states.bytes
    assert more == 16 * 2 * 128256 * 4096
    assert beside.verdict is FitVerdict.YES
    assert asked("l4", trains_tables=False).gpus == 1
    assert asked("l4", trains_tables=True).gpus > 1


def test_what_is_not_recomputed_is_kept_of_every_layer() -> None:
    """LitGPT's table: LoRA of Llama 2 7B at 1304 tokens takes 7.77 GB more for a second sequence, and four of
    them do not fit on an A100 of 40 GB; recomputed, four do.
    """

    def asked(batch: int, *, recomputes: bool) -> Training:
        options = Options("llama-2-7b", ("a100-40",), context=1304, batch=batch)
        return ask_training(options, "lora", 3, 8, recomputes=recomputes).cards[0]

    card = cards_of(["a100-40"])[0]
    one, two = (
        memory_of(model_of("llama-2-7b"), Course("lora", 1304, batch, 3, 8, recomputes=False), card, 1)
        for batch in (1, 2)
    )
    assert (two.total.bytes - one.total.bytes) / 1e9 == pytest.approx(7.77, rel=0.05)
    four = asked(4, recomputes=False)
    assert four.gpus > 1 or four.verdict is not FitVerdict.YES
    assert asked(4, recomputes=True).gpus == 1


def test_everything_in_16_bits_takes_eight_bytes_a_parameter() -> None:
    """Llama 3.2 3B, by hand: 2 of the weight, 2 of its gradient and 4 of both moments, of 3,212,749,824."""
    course = Course("full", 4096, 2, precision="bf16", fuses_loss=True)
    found = memory_of(model_of("llama-3.2-3b"), course, cards_of(["a100-80"])[0], 1)
    assert found.states.bytes == 8 * 3_212_749_824
    assert found.logits.bytes == 0


def test_gradients_come_as_what_was_kept_for_them_goes() -> None:
    """torchtune's table: with 8,192 tokens and every layer kept, Llama 3.2 3B holds 42.9 GiB, of which 17.95
    are weights and moments. So what is kept explains 24.95 GiB, and the 5.98 GiB of gradients are not beside.
    """
    course = Course("full", 4096, 2, recomputes=False, precision="bf16", fuses_loss=True)
    found = memory_of(model_of("llama-3.2-3b"), course, cards_of(["a100-80"])[0], 1)
    beside = found.total.bytes - found.runtime.bytes
    assert beside / 2**30 == pytest.approx(42.9, rel=0.03)


def test_adam_steps_with_one_more_number_a_parameter() -> None:
    """SWIFT's table: Qwen 7B in 16 bits takes 73.4 GiB at 512 tokens; ten bytes of 7,721,324,544 are 71.9."""
    course = Course("full", 512, 1, precision="bf16")
    found = memory_of(model_of("qwen-7b"), course, cards_of(["a100-80"])[0], 1)
    assert (found.total.bytes - found.runtime.bytes) == 10 * 7_721_324_544


def test_the_head_stays_gathered_between_both_ways() -> None:
    """Llama 3.1 8B, by hand: a head of 128,256 x 4,096 in 16 bits beside two layers of 218,112,000."""
    found = memory_of(model_of("llama-3.1-8b"), Course("full", 4096, 1), cards_of(["h100-80"])[0], 8)
    assert found.gathered.bytes == 2 * 2 * 218_112_000 + 2 * 128_256 * 4_096
    alone = memory_of(model_of("llama-3.1-8b"), Course("full", 4096, 1), cards_of(["h100-80"])[0], 1)
    assert alone.gathered.high_bytes == 0


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(InputError, match="--precision"):
        ask_training(Options("qwen3-8b"), "full", 3, 16, precision="int1")


def test_full_training_has_no_tables_to_add() -> None:
    with pytest.raises(InputError, match="anyway"):
        ask_training(Options("llama-3.1-8b"), "full", 3, 16, trains_tables=True)


def one(model: str, gpu: str, method: str, *, zero: int = 3, context: int = 0) -> Training:
    (card,) = ask_training(Options(model, (gpu,), context=context), method, zero, 16).cards
    return card


@pytest.mark.parametrize(
    ("model", "gpu", "method", "context", "gpus"),
    [
        # QLoRA's paper trains 65 B on one GPU of 48 GB and 33 B on one of 24 GB, at 512 tokens.
        ("llama-2-70b", "a40", "qlora", 512, 1),
        ("codellama-34b", "rtx-4090", "qlora", 512, 1),
        ("llama-3.1-8b", "l4", "qlora", 512, 1),
        # 8.03 B x 16 bytes are 119.7 GiB: no single H100, and two have too little beside it.
        ("llama-3.1-8b", "h100-80", "full", 4096, 4),
        ("llama-3.1-8b", "h100-80", "lora", 4096, 1),
    ],
)
def test_it_takes_as_many_gpus_as_people_train_it_on(
    model: str, gpu: str, method: str, context: int, gpus: int
) -> None:
    found = one(model, gpu, method, context=context)
    assert (found.verdict, found.gpus) == (FitVerdict.YES, gpus)


def test_what_is_not_divided_does_not_fit_on_any_number() -> None:
    found = one("llama-3.3-70b", "h100-80", "full", zero=1)
    assert found.verdict is FitVerdict.NO
    assert "--zero 3" in found.changes[0]


def test_a_yes_holds_in_the_worst_case() -> None:
    for card in ask_training(Options("qwen3-8b"), "full", 3, 16).cards:
        assert (card.verdict is FitVerdict.YES) == (card.memory.total.high_bytes <= card.memory.usable_bytes)


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(InputError, match="--train"):
        ask_training(Options("qwen3-8b"), "dream", 3, 16)
