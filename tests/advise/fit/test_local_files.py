"""Models from files: made here byte for byte after the formats' own documents, and broken on purpose."""

import json
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.advise.fit.ask import ask, model_of
from gpufleet.advise.fit.gguf import Head, Value, as_llama_cpp_keeps, config_of
from gpufleet.fit.architecture import facts_of
from gpufleet.fit.facts import Origin
from gpufleet.fit.kv_cache import model_token_bytes
from gpufleet.fit.options import Options
from gpufleet.fit.shapes import parameters
from gpufleet.model.model_errors import InputError

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "rope_scaling": {"factor": 8.0, "rope_type": "llama3"},
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}


def folder(tmp_path: Path, config: dict[str, object], index: dict[str, object] | None = None) -> Path:
    place = tmp_path / "my-llama"
    place.mkdir()
    (place / "config.json").write_text(json.dumps(config))
    if index is not None:
        (place / "model.safetensors.index.json").write_text(json.dumps(index))
    return place


def test_a_configuration_counts_as_the_catalogue_does(tmp_path: Path) -> None:
    model = model_of(str(folder(tmp_path, LLAMA)))
    assert model.origin is Origin.CONFIG
    assert parameters(model.facts) == 8_030_261_248
    assert model.facts.name == "my-llama"


def test_an_index_says_how_large_the_files_are(tmp_path: Path) -> None:
    place = folder(tmp_path, LLAMA, {"metadata": {"total_size": 16_060_522_496}, "weight_map": {}})
    answer = ask(Options(str(place), ("h100-80",)))
    assert answer.model.origin == "safetensors index"
    assert answer.weights_bytes == 16_060_522_496
    assert answer.cards[0].memory.weights.bytes == pytest.approx(16_060_522_496, rel=1e-6)


@pytest.mark.parametrize(
    ("quantization", "name"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "awq"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "gptq"),
        ({"quant_method": "gptq", "bits": 8, "group_size": 128}, "int8"),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8-block"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "nf4"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "compressed-tensors", "format": "float-quantized"}, "fp8"),
        ({"quant_method": "compressed-tensors", "format": "int-quantized"}, "int8"),
        ({"quant_method": "compressed-tensors", "format": "pack-quantized"}, "w4a16"),
    ],
)
def test_a_checkpoint_says_how_it_is_quantised(
    tmp_path: Path, quantization: dict[str, object], name: str
) -> None:
    place = folder(tmp_path, LLAMA | {"quantization_config": quantization})
    assert model_of(str(place)).facts.native_format == name


def test_a_safetensors_file_tells_its_size(tmp_path: Path) -> None:
    place = folder(tmp_path, LLAMA)
    head = json.dumps(
        {
            "__metadata__": {"format": "pt"},
            "a": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]},
            "b": {"dtype": "F32", "shape": [5], "data_offsets": [12, 32]},
        }
    ).encode()
    file = place / "model.safetensors"
    file.write_bytes(struct.pack("<Q", len(head)) + head + bytes(32))
    assert model_of(str(file)).weights_bytes == 32


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(kind: int = 12, *, rows: int = 4096) -> bytes:
    """A Llama of 2 layers with one quantised matrix of 4096 rows and 256 columns, and its vocabulary."""
    numbers = {
        "llama.block_count": 2,
        "llama.embedding_length": 4096,
        "llama.feed_forward_length": 14336,
        "llama.attention.head_count": 32,
        "llama.attention.head_count_kv": 8,
        "llama.context_length": 8192,
        "llama.vocab_size": 32000,
    }
    pairs = text("general.architecture") + struct.pack("<I", 8) + text("llama")
    pairs += b"".join(text(key) + struct.pack("<II", 4, value) for key, value in numbers.items())
    pairs += text("tokenizer.ggml.scores") + struct.pack("<IIQ", 9, 6, 2) + struct.pack("<ff", 0.0, 1.0)
    tensors = b"".join(
        text(name) + struct.pack("<I", 2) + struct.pack("<QQ", 256, rows) + struct.pack("<IQ", kind, 0)
        for name in ("blk.0.attn_q.weight", "output.weight")
    )
    return b"GGUF" + struct.pack("<IQQ", 3, 2, len(numbers) + 2) + pairs + tensors


def test_a_gguf_head_gives_shapes_and_size(tmp_path: Path) -> None:
    file = tmp_path / "tiny.gguf"
    file.write_bytes(gguf())
    model = model_of(str(file))
    assert model.origin is Origin.GGUF
    # Q4_K: 144 bytes for 256 weights, two matrices of 4096 x 256
    assert model.weights_bytes == 2 * 4096 * 144
    assert len(model.facts.layers) == 2
    assert not model.facts.tied
    answer = ask(Options(str(file), ("l4",)))
    assert answer.kv_bytes_per_token == 2 * 2 * 8 * 128 * 2
    assert answer.asked.engine == "llama.cpp"


def test_a_gguf_of_linear_attention_keeps_keys_in_every_fourth_layer() -> None:
    """The head of Qwen3-Next as llama.cpp prints it (ggml-org/llama.cpp, issue 17578)."""
    metadata: dict[str, Value] = {
        "general.architecture": "qwen3next",
        "qwen3next.block_count": 48,
        "qwen3next.context_length": 262144,
        "qwen3next.embedding_length": 2048,
        "qwen3next.feed_forward_length": 5120,
        "qwen3next.attention.head_count": 16,
        "qwen3next.attention.head_count_kv": 2,
        "qwen3next.attention.key_length": 256,
        "qwen3next.expert_count": 512,
        "qwen3next.expert_used_count": 10,
        "qwen3next.expert_feed_forward_length": 512,
        "qwen3next.expert_shared_feed_forward_length": 512,
        "qwen3next.ssm.conv_kernel": 4,
        "qwen3next.ssm.state_size": 128,
        "qwen3next.ssm.time_step_rank": 32,
        "qwen3next.ssm.group_count": 16,
        "qwen3next.vocab_size": 151936,
    }
    head = Head(metadata, 1, "q4_k_m", frozenset({"output.weight"}))
    facts = facts_of("tiny", config_of(head, "here"))
    assert parameters(facts) == pytest.approx(79.67e9, rel=0.01)
    assert model_token_bytes(facts, 2.0) == 2 * 12 * 2 * 256 * 2


@pytest.mark.parametrize(("lengths", "numbers"), [({}, 16 * 320), ({"key_length_mla": 192}, 512 + 64)])
def test_an_old_gguf_of_deepseek_keeps_the_keys_of_every_head(lengths: dict[str, int], numbers: int) -> None:
    """DeepSeek V2 Lite: llama.cpp keeps compressed keys with ``key_length_mla`` (its change 12801)."""
    numbers_said = {
        "block_count": 27,
        "embedding_length": 2048,
        "feed_forward_length": 10944,
        "attention.head_count": 16,
        "attention.head_count_kv": 16,
        "attention.key_length": 192,
        "attention.value_length": 128,
        "attention.kv_lora_rank": 512,
        "rope.dimension_count": 64,
        "vocab_size": 102400,
    } | {f"attention.{key}": value for key, value in lengths.items()}
    metadata: dict[str, Value] = {f"deepseek2.{key}": value for key, value in numbers_said.items()}
    head = Head(metadata | {"general.architecture": "deepseek2"}, 1, "q4_k_m", frozenset({"output.weight"}))
    facts = as_llama_cpp_keeps(facts_of("lite", config_of(head, "here")), head)
    assert model_token_bytes(facts, 2.0) == 27 * 2 * numbers


def test_all_parts_of_a_model_count(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"tiny-0000{number}-of-00002.gguf").write_bytes(gguf())
    for place in (tmp_path / "tiny-00002-of-00002.gguf", tmp_path):
        assert model_of(str(place)).weights_bytes == 2 * 2 * 4096 * 144
    (tmp_path / "tiny-00001-of-00002.gguf").unlink()
    with pytest.raises(InputError, match="tiny-00001-of-00002"):
        model_of(str(tmp_path / "tiny-00002-of-00002.gguf"))


def test_one_of_several_safetensors_stands_for_all(tmp_path: Path) -> None:
    place = folder(tmp_path, LLAMA)
    head = json.dumps({"a": {"dtype": "BF16", "shape": [6], "data_offsets": [0, 12]}}).encode()
    for number in (1, 2, 3):
        file = place / f"model-0000{number}-of-00003.safetensors"
        file.write_bytes(struct.pack("<Q", len(head)) + head + bytes(12))
    assert model_of(str(place / "model-00002-of-00003.safetensors")).weights_bytes == 36
    (place / "model-00003-of-00003.safetensors").unlink()
    with pytest.raises(InputError, match="part of the model is missing"):
        model_of(str(place / "model-00002-of-00003.safetensors"))


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({}, "num_hidden_layers"),
        ({"num_hidden_layers": 2}, "num_attention_heads"),
        (LLAMA | {"vocab_size": -1}, "vocab_size"),
        (LLAMA | {"layer_types": ["fancy"] * 32}, "layer_types"),
        (LLAMA | {"quantization_config": {"quant_method": "sparse"}}, "quant_method"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, config: dict[str, object], field: str) -> None:
    with pytest.raises(InputError, match=field):
        model_of(str(folder(tmp_path, config)))


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"hidden_size": "many"}', b"\xff\xfe"])
def test_what_is_no_configuration_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    with pytest.raises(InputError):
        model_of(str(file))


@given(cut=st.integers(0, len(gguf()) - 1), flip=st.integers(0, 255))
def test_a_broken_gguf_is_refused_or_read_and_never_crashes(
    tmp_path_factory: pytest.TempPathFactory, cut: int, flip: int
) -> None:
    file = tmp_path_factory.mktemp("broken") / "tiny.gguf"
    whole = bytearray(gguf())
    whole[cut] ^= flip
    for content in (bytes(whole[:cut]), bytes(whole)):
        file.write_bytes(content)
        try:
            model_of(str(file))
        except InputError:
            continue


def test_an_index_without_its_configuration_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors.index.json"
    file.write_text("{}")
    with pytest.raises(InputError, match=r"config\.json"):
        model_of(str(file))
