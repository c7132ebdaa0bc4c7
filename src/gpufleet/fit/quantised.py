"""The format of a checkpoint, from what its own configuration says about its quantisation.

Bits and the size of the groups that share a scale are those of the file, and so are the parts that it keeps
in 16 bits (``spared``); the name and what kernels ask for are those of the row in ``formats``.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpufleet.fit.config import ModelConfig, Quantization
from gpufleet.fit.formats import FORMATS, WeightFormat
from gpufleet.fit.unquantised import spared_parts
from gpufleet.model.model_errors import InputError

SCALE_BITS = 16
"""A group's scale is a number of 16 bits."""


def native(config: ModelConfig, layers: int) -> WeightFormat:
    """The format that a checkpoint's own configuration names; raises InputError for one that is not known."""
    text = config.text_config
    quantization = config.quantization_config or (text.quantization_config if text else None)
    if quantization is not None and (quantization.quant_method or quantization.quant_algo):
        form = _quantised(quantization)
        if quantization.spared or form.is_uneven:
            # The configuration lists what it spares, so nothing is left open.
            return replace(form, spared=spared_parts(quantization.spared, layers), is_uneven=False)
        return form
    said = config.dtype or config.torch_dtype or (text and (text.dtype or text.torch_dtype)) or "bfloat16"
    names = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
    if said not in names:
        raise InputError(
            "an unknown type of weights", field="torch_dtype", value=said, expected=", ".join(names)
        )
    return FORMATS[names[said]]


def _quantised(quantization: Quantization) -> WeightFormat:
    method = quantization.quant_method.lower() or "modelopt"
    match method:
        case "bitsandbytes":
            return _of_bitsandbytes(quantization)
        case "awq" | "gptq" | "auto-round" | "awq_marlin" | "gptq_marlin":
            name = "awq" if method.startswith("awq") else "gptq"
            return _in_groups(name, quantization.bits or 4, quantization.group_size or 128, has_zeros=True)
        case "fp8":
            return FORMATS["fp8-block" if quantization.weight_block_size else "fp8"]
        case "mxfp4":
            # Whatever it lists beside, only experts are in this format.
            return FORMATS["mxfp4"]
        case "fbgemm_fp8":
            return FORMATS["fp8"]
        case "compressed-tensors" | "modelopt" | "modelopt_fp4":
            return _of_groups(quantization)
    raise InputError(
        "an unknown way of quantising",
        field="quantization_config.quant_method",
        value=method,
        expected="awq, gptq, fp8, mxfp4, bitsandbytes, compressed-tensors or modelopt (or say --weights)",
    )


def _of_bitsandbytes(quantization: Quantization) -> WeightFormat:
    if quantization.load_in_8bit:
        return FORMATS["int8"]
    form = FORMATS["nf4"]
    if quantization.bnb_4bit_use_double_quant:
        return form
    return replace(
        form,
        linear_bits=4 + 32 / 64,
        basis="4 bits, a 32 bit scale for 64 weights; embeddings and head 16 bit",
    )


def _in_groups(name: str, bits: int, group: int, *, has_zeros: bool) -> WeightFormat:
    """Integers with a scale, and perhaps a zero, for each group; a group below 1 is a whole row."""
    if bits == 8:
        name = "int8" if name in {"awq", "gptq"} else "w8a16"
    beside = 0.0 if group < 1 else (SCALE_BITS + (bits if has_zeros else 0)) / group
    many = "a row" if group < 1 else f"{group} weights"
    zeros = f" and a {bits} bit zero" if has_zeros else ""
    return replace(
        FORMATS[name],
        linear_bits=bits + beside,
        group=max(1, group),
        basis=f"{bits} bits, a 16 bit scale{zeros} for {many}; what the file lists, tables 16 bit",
    )


def _of_groups(quantization: Quantization) -> WeightFormat:
    """Compressed tensors and ModelOpt: groups of modules, each with its kind of numbers."""
    kinds = {_of_numbers(quantization, one) for one in _weights(quantization.config_groups)}
    kinds = kinds or {_of_numbers(quantization, {})}
    if len(kinds) > 1:
        raise InputError(
            "several kinds of numbers in one checkpoint are not counted",
            field="quantization_config.config_groups",
            expected="one kind (or say --weights)",
        )
    name, bits, group = next(iter(kinds))
    return FORMATS[name] if not bits else _in_groups(name, bits, group, has_zeros=False)


def _weights(groups: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = [one.get("weights") for one in groups.values() if isinstance(one, dict)]
    return [one for one in found if isinstance(one, dict)]


def _of_numbers(quantization: Quantization, weights: Mapping[str, Any]) -> tuple[str, int, int]:
    """The name of a format, and bits and group where these are the file's own."""
    words = f"{quantization.format} {quantization.quant_algo or ''} {weights.get('format') or ''}".lower()
    bits, group = weights.get("num_bits"), weights.get("group_size")
    kind = str(weights.get("type", ""))
    # The name of the tool's format goes before its numbers: several formats have 4 bits.
    if "nvfp4" in words or (bits == 4 and kind == "float"):
        return "nvfp4", 0, 0
    if "pack-quantized" in words or (bits == 4 and kind == "int"):
        per_channel = weights.get("strategy") == "channel"
        size = group if isinstance(group, int) else -1 if per_channel else 128
        return "w4a16", bits if isinstance(bits, int) else 4, size
    if "float-quantized" in words or "fp8" in words or kind == "float":
        return "fp8-block" if weights.get("strategy") == "block" else "fp8", 0, 0
    if "int-quantized" in words or bits == 8:
        return "int8", 0, 0
    raise InputError(
        "this way of quantising is not known",
        field="quantization_config",
        expected="one of 4 or 8 bits (or say --weights)",
    )
