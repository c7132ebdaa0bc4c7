"""Which model a server loads, by the command lines that the servers' own documents show."""

import pytest

from gpufleet.kube.meanings.model_servers import model_of_address, model_told, started_with

TGI = "ghcr.io/huggingface/text-generation-inference:3.3.4"
TOLD = [
    ("vllm serve meta-llama/Llama-3.1-8B --port 8000", "", {}, "meta-llama/Llama-3.1-8B"),
    ("--model mistralai/Mistral-7B-v0.1", "vllm/vllm-openai:v0.11.0", {}, "mistralai/Mistral-7B-v0.1"),
    ("Qwen/Qwen3-8B --max-model-len 4096", "vllm/vllm-openai:latest", {}, "Qwen/Qwen3-8B"),
    ("python3 -m vllm.entrypoints.openai.api_server --model=a/b --revision r1", "", {}, "a/b@r1"),
    ("sh -c vllm serve a/b --revision=main", "", {}, "a/b@main"),
    ("python3 -m sglang.launch_server --model-path a/b --tp 2", "", {}, "a/b"),
    ("--model-id tiiuae/falcon-7b --num-shard 2", TGI, {}, "tiiuae/falcon-7b"),
    ("", TGI, {"MODEL_ID": "a/b", "REVISION": "r1"}, "a/b@r1"),
    ("--model-id a/b", TGI, {"MODEL_ID": "c/d"}, "a/b"),
    ("", "ghcr.io/huggingface/text-embeddings-inference:1.8", {"MODEL_ID": "BAAI/bge-m3"}, "BAAI/bge-m3"),
    ("", "deepjavalibrary/djl-serving:0.36-lmi", {"HF_MODEL_ID": "a/b"}, "a/b"),
    ("trtllm-serve serve a/b --tp_size 2", "", {}, "a/b"),
    ("trtllm-serve a/b", "", {}, "a/b"),
    ("lmdeploy serve api_server internlm/internlm2_5-7b-chat", "", {}, "internlm/internlm2_5-7b-chat"),
    ("--model_name=llama --model_id=a/b", "kserve/huggingfaceserver:v0.15", {}, "a/b"),
]
UNKNOWN = [
    ("vllm serve /models/llama", "", {}),
    ("vllm serve s3://bucket/llama", "", {}),
    ("vllm serve $(MODEL)", "", {}),
    ("vllm serve --model", "", {}),
    ("vllm bench serve --model a/b", "vllm/vllm-openai:latest", {}),
    ("vllm serve a/b --revision $REVISION", "", {}),
    ("vllm serve a/b & vllm serve c/d", "", {}),
    ("python3 train.py --model a/b", "", {}),
    ("tritonserver --model-repository=/models", "nvcr.io/nvidia/tritonserver:25.08-py3", {}),
    ("", "registry/app:vllm", {"MODEL_ID": "a/b"}),
    ("", "", {"MODEL_ID": "a/b", "HF_MODEL_ID": "a/b"}),
    ("x " * 5000 + "vllm serve a/b", "", {}),
]


@pytest.mark.parametrize(("line", "image", "variables", "model"), TOLD)
def test_a_server_loads_the_model_that_it_is_told(
    line: str, image: str, variables: dict[str, str], model: str
) -> None:
    assert model_told(line.split(), image, variables) == model
    # What is kept of the line says the same.
    assert model_told(started_with(model), "", {}) == model


@pytest.mark.parametrize(("line", "image", "variables"), UNKNOWN)
def test_what_is_no_name_of_the_hub_is_no_model(line: str, image: str, variables: dict[str, str]) -> None:
    assert model_told(line.split(), image, variables) == ""


def test_addresses_of_the_hub_name_models() -> None:
    found = [model_of_address(one) for one in ("hf://a/b", "hf://a/b:r1", "s3://a/b", "hf://a", "pvc://a/b")]
    assert found == ["a/b", "a/b@r1", "", "", ""]
