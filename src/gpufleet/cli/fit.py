"""``gpufleet fit``: does this model fit on those GPUs; ``gpufleet.fit`` counts, ``fit_output`` shows."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from gpufleet.cli.parameters import KUBECONFIG, OneOf, Real, Whole
from gpufleet.cli.token_count import TokenCount

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpufleet.fit.answer import FitVerdict
    from gpufleet.fit.options import Options

# Exit codes: a script tells a model that fits nowhere from a question that cannot be read.
DONE, FITS_NOWHERE = 0, 1
LIVE = "the cluster itself"
"""What `--cluster` means without a file."""


@click.command(name="fit")
@click.argument("model", required=False, default="")
@click.option(
    "--gpu",
    "gpus",
    metavar="CARD",
    multiple=True,
    help="A card, such as h100-80, or kinds of card together: 2xrtx-3090+rtx-4090. May be repeated.",
)
@click.option("--context", type=TokenCount(), help="Tokens of a sequence: 32768, 32k.  [default: 8192]")
@click.option("--batch", type=Whole(1, 1_000_000), default=1, show_default=True, help="Sequences at a time.")
@click.option("--weights", metavar="FORMAT", default="", help="bf16, fp8, awq ...  [default: as published]")
@click.option("--kv", metavar="TYPE", default="auto", show_default=True, help="Of keys and values: fp8 ...")
@click.option("--tp", type=Whole(1, 1024), help="Tensor parallel.  [default: what fits]")
@click.option("--pp", type=Whole(1, 1024), help="Pipeline stages.  [default: what fits]")
@click.option("--dp", type=Whole(1, 1024), default=1, help="Data parallel, experts shared.  [default: 1]")
@click.option("--ep", is_flag=True, help="Each expert is whole on one GPU (--enable-expert-parallel).")
@click.option(
    "--engine",
    default="",
    help="vllm, vllm-0.21, vllm-0.16, vllm-0.10, sglang, tensorrt-llm, transformers or llama.cpp."
    "  [default: vllm, of GGUF llama.cpp]",
)
@click.option(
    "--utilization",
    type=Real(0.1, 1.0),
    help="The part of the memory that the engine may use.  [default: the engine's own]",
)
@click.option("--max-num-seqs", type=Whole(1, 1_000_000), help="As given to vLLM.")
@click.option("--max-num-batched-tokens", type=Whole(1, 1_000_000_000), help="As given to vLLM.")
@click.option("--train", "method", type=OneOf(["full", "lora", "qlora"]), help="Train instead of serve.")
@click.option("--zero", type=Whole(0, 3), default=3, help="ZeRO's stage; 3 is FSDP.  [default: 3]")
@click.option("--rank", type=Whole(1, 65_536), default=16, show_default=True, help="Of adapters (LoRA).")
@click.option(
    "--train-embeddings", is_flag=True, help="With adapters: the embedding and the head are trained too."
)
@click.option("--keep-activations", is_flag=True, help="Train without computing the inside of layers again.")
@click.option(
    "--precision", type=OneOf(["mixed", "bf16"]), help="Of the states that Adam keeps.  [default: mixed]"
)
@click.option("--fused-loss", is_flag=True, help="Train with a loss that never has all logits in memory.")
@click.option(
    "--hub", "from_hub", is_flag=True, help="MODEL is OWNER/NAME: fetch its configuration from the hub."
)
@click.option(
    "--cluster",
    metavar="[FILE]",
    is_flag=False,
    flag_value=LIVE,
    help="Say where in a cluster it fits: in that of kubectl, which is only read, or in that of a file: of"
    " gpufleet snapshot, or of kubectl get nodes,pods,nodedevices -A -o yaml.",
)
@click.option(
    "--here", is_flag=True, help="Say whether it fits on this machine's GPUs; without MODEL, what does."
)
@click.option("--kubeconfig", type=KUBECONFIG, help="Instead of KUBECONFIG and ~/.kube/config.")
@click.option("--kube-context", default="", help="The kubeconfig's context to use.")
@click.option(
    "--manifest", "writes", is_flag=True, help="Print what runs it on that card, for kubectl apply."
)
@click.option("--list", "lists", is_flag=True, help="Show the models and cards of the catalogue.")
@click.option(
    "--list-evidence",
    "lists_evidence",
    is_flag=True,
    help="Show the published measurements that the estimates are held against, and how near they come.",
)
@click.option("-o", "--output", type=OneOf(["text", "json"]), default="text", help="[default: text]")
def command(
    model: str,
    gpus: tuple[str, ...],
    context: int | None,
    batch: int,
    weights: str,
    kv: str,
    tp: int | None,
    pp: int | None,
    dp: int,
    ep: bool,
    engine: str,
    utilization: float | None,
    max_num_seqs: int | None,
    max_num_batched_tokens: int | None,
    method: str | None,
    zero: int,
    rank: int,
    train_embeddings: bool,
    keep_activations: bool,
    precision: str | None,
    fused_loss: bool,
    from_hub: bool,
    cluster: str | None,
    here: bool,
    kubeconfig: Path | None,
    kube_context: str,
    writes: bool,
    lists: bool,
    lists_evidence: bool,
    output: str,
) -> int:
    """Say whether a language model fits on GPUs, on how many, and what would make it fit.

    MODEL is a name of the catalogue, or the path of a config.json or of its folder, of a safetensors index
    or of a GGUF file. Without --gpu every card is tried. A yes is given only if the worst case fits: code 0
    if it fits on one of the cards, 1 if on none.
    """
    from gpufleet.fit.options import Options

    if lists or lists_evidence:
        return _show_list(output, is_evidence=lists_evidence)
    model, cluster = _meant(model, cluster, here=here)
    options = Options(
        model=model,
        gpus=gpus,
        context=context or 0,
        batch=batch,
        weights=weights,
        kv=kv,
        tensor_parallel=tp or 0,
        stages=pp or 0,
        engine=engine,
        utilisation=utilization or 0.0,
        sequences_max=max_num_seqs or 0,
        batched_tokens=max_num_batched_tokens or 0,
        replicas=dp,
        whole_experts=ep,
        from_hub=from_hub,
    )
    _check_together(here=here, writes=writes, trains=bool(method), asks_cluster=cluster is not None)
    _check_training(method, train_embeddings or keep_activations or fused_loss or bool(precision))
    if writes:
        return _show_manifest(options, output)
    if method:
        way = Way(zero, rank, train_embeddings, not keep_activations, precision or "mixed", fused_loss)
        return _show_training(options, method, way, output)
    if cluster is not None:
        return _show_cluster(options, cluster, kubeconfig, kube_context, output)
    return _show_machine(options, output) if here else _show_cards(options, output)


def _show_manifest(options: "Options", output: str) -> int:
    from gpufleet.advise.fit.ask import ask_manifest
    from gpufleet.cli.fit_output import show_manifest

    show_manifest(ask_manifest(options), output)
    return DONE


def _show_cards(options: "Options", output: str) -> int:
    from gpufleet.advise.fit.ask import ask
    from gpufleet.cli.fit_output import show

    answer = ask(options)
    show(answer, output, detailed=bool(options.gpus))
    return _code(card.verdict for card in answer.cards)


def _check_together(*, here: bool, writes: bool, trains: bool, asks_cluster: bool) -> None:
    """Refuse options of which each asks another question."""
    if here and (writes or trains):
        raise click.UsageError("--here says where a server fits, not with --train or --manifest")
    if writes and trains:
        raise click.UsageError("--manifest runs a server, and --train is no server")
    if here and asks_cluster:
        raise click.UsageError("--here asks this machine, and --cluster a cluster")


def _check_training(method: str | None, says_how: bool) -> None:
    if says_how and not method:
        raise click.UsageError(
            "--train-embeddings, --keep-activations, --precision and --fused-loss say how is trained: with"
            " --train"
        )


class Way(NamedTuple):
    """How is trained, as the options of ``--train`` say it."""

    zero: int
    rank: int
    trains_tables: bool
    recomputes: bool
    precision: str
    fuses_loss: bool


def _show_training(options: "Options", method: str, way: Way, output: str) -> int:
    from gpufleet.advise.fit.ask import ask_training
    from gpufleet.cli.fit_training_output import show_training

    trained = ask_training(
        options,
        method,
        way.zero,
        way.rank,
        trains_tables=way.trains_tables,
        recomputes=way.recomputes,
        precision=way.precision,
        fuses_loss=way.fuses_loss,
    )
    show_training(trained, output, detailed=bool(options.gpus))
    return _code(card.verdict for card in trained.cards)


def _show_list(output: str, *, is_evidence: bool) -> int:
    from gpufleet.cli.fit_evidence_output import show_evidence
    from gpufleet.cli.fit_output import show_catalogue

    if is_evidence:
        show_evidence(output)
    else:
        show_catalogue(output)
    return DONE


def _code(verdicts: "Iterable[FitVerdict]") -> int:
    return DONE if any(verdict.value == "yes" for verdict in verdicts) else FITS_NOWHERE


def _meant(model: str, cluster: str | None, *, here: bool) -> tuple[str, str | None]:
    """The model and the cluster: in `fit --cluster MODEL` the word behind the option is no file."""
    if not model and cluster not in {None, LIVE} and not Path(str(cluster)).is_file():
        model, cluster = str(cluster), LIVE
    if not model and not here:
        raise click.UsageError("say which MODEL; --list shows those of the catalogue")
    return model, cluster


def _show_cluster(
    options: "Options", cluster: str, kubeconfig: Path | None, kube_context: str, output: str
) -> int:
    from gpufleet.advise.fit.on_cluster import ask_cluster, ask_cluster_file
    from gpufleet.cli.fit_cluster_output import show_places

    if cluster == LIVE:
        found = ask_cluster(options, kubeconfig, kube_context)
    else:
        found = ask_cluster_file(options, Path(cluster))
    show_places(found, output)
    return _code(card.verdict for card in found.answer.cards)


def _show_machine(options: "Options", output: str) -> int:
    from gpufleet.advise.fit.on_machine import ask_machine, ask_what_runs, own_backends
    from gpufleet.cli.fit_machine_output import show_runnable
    from gpufleet.cli.fit_output import show
    from gpufleet.cli.output import echo_json, echo_line

    if not options.model:
        runnable = ask_what_runs(options, own_backends())
        show_runnable(runnable, output)
        return DONE if runnable.models else FITS_NOWHERE
    found = ask_machine(options, own_backends())
    if output == "json":
        echo_json(found)
    else:
        show(found.answer, output, detailed=True)
        for line in found.left_out:
            echo_line(f"Left out: {line}")
    return _code(card.verdict for card in found.answer.cards)
