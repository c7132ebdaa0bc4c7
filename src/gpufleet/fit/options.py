"""What a user asks for on a command line, and the question that it makes of a model.

Pure; ``advise.fit.ask`` reads files too. Lint, which reads the command line of a manifest, asks with the same
defaults as a terminal.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpufleet.fit.architecture import facts_of
from gpufleet.fit.catalogue import ModelEntry, find_model, ollama_names, quantised_name
from gpufleet.fit.engines import Engine, engine_named
from gpufleet.fit.facts import Origin
from gpufleet.fit.formats import WeightFormat, format_named
from gpufleet.fit.kv_cache import element_bytes
from gpufleet.fit.question import CONTEXT, Model, Serving
from gpufleet.model.model_errors import InputError


@dataclass(frozen=True, slots=True)
class Options:
    """What a user typed; empty and zero for what was left open. ``docs/fit.md`` describes each."""

    model: str
    gpus: Sequence[str] = ()
    context: int = 0
    batch: int = 1
    weights: str = ""
    kv: str = "auto"
    tensor_parallel: int = 0
    stages: int = 0
    engine: str = ""
    utilisation: float = 0.0
    sequences_max: int = 0
    batched_tokens: int = 0
    replicas: int = 1
    whole_experts: bool = False
    from_hub: bool = False


def catalogue_model(name: str) -> Model:
    """The model of this name in the catalogue, or the one that a quantised checkpoint of this name was made
    of. Raises InputError where none has it.
    """
    try:
        entry = find_model(name)
    except InputError:
        checkpoint = _quantised_checkpoint(name)
        if checkpoint is None:
            raise
        return checkpoint
    model = _of_entry(entry)
    return _as_ollama_has_it(model, name) if name.lower() in ollama_names() else model


def _as_ollama_has_it(model: Model, name: str) -> Model:
    """The model with the weights that Ollama fetches by that name: of 4 bits, or as published in MXFP4."""
    native = model.facts.native
    form = replace(native, is_gguf=True) if native.name == "mxfp4" else format_named("q4_k_m")
    return replace(
        model, facts=replace(model.facts, name=name, native=form), source=f"{model.source}, as Ollama has it"
    )


def _of_entry(entry: ModelEntry) -> Model:
    return Model(
        facts_of(entry.name, entry.config),
        Origin.CATALOGUE,
        entry.address,
        entry.date,
        hub=entry.hub,
        basis=entry.config_basis,
    )


def _quantised_checkpoint(name: str) -> Model | None:
    """A checkpoint that is known by its name alone: which parts it keeps in 16 bits is open.

    GGUF files are not meant: their names say neither the format nor the engine's size of context.
    """
    found = quantised_name(name)
    if found is None or format_named(found[1]).is_gguf:
        return None
    model = _of_entry(found[0])
    form = replace(format_named(found[1]), is_uneven=True)
    return replace(
        model,
        facts=replace(model.facts, name=name, native=form),
        source=f"{model.source}, quantised to {form.name} as the name says",
        hub=name if "/" in name else "",
    )


def form_of(said: str, model: Model, engine: Engine) -> WeightFormat:
    """The format asked for, or the checkpoint's own; vLLM loads 32 bits as 16 unless told otherwise."""
    native = model.facts.native
    if said:
        return native if format_named(said).name == native.name else format_named(said)
    return format_named("bf16") if native.name == "fp32" and engine.sizes_pool else native


def serving_of(options: Options, model: Model) -> Serving:
    """The question, with what was left open filled in."""
    is_file = model.origin is Origin.GGUF or (not options.weights and model.facts.native.is_gguf)
    is_gguf = is_file or bool(options.weights and format_named(options.weights).is_gguf)
    usual = "llama.cpp" if is_gguf else "vllm"
    engine = engine_named(options.engine or usual)
    # Asked for its refusal alone: the name of no type must not come further.
    element_bytes(options.kv)
    most = model.facts.context_max or CONTEXT
    return Serving(
        context=options.context or min(CONTEXT, most),
        batch=options.batch,
        form=form_of(options.weights, model, engine),
        kv=options.kv.lower(),
        engine=engine,
        utilisation=options.utilisation or engine.utilisation,
        tensor_parallel=options.tensor_parallel,
        # A width without a depth means one stage, as in vLLM.
        stages=options.stages or (1 if options.tensor_parallel else 0),
        sequences_max=options.sequences_max,
        batched_tokens=options.batched_tokens,
        replicas=options.replicas,
        whole_experts=options.whole_experts,
    )
