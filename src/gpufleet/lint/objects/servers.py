"""Which containers serve models, so that they load for minutes and answer requests."""

import re

from gpufleet.lint.objects.containers import Container
from gpufleet.lint.objects.pods import PodTemplate

_LANGUAGE_MODELS = re.compile(
    r"vllm|sglang|text-generation-inference|tensorrt-llm|trtllm|llama[-.]?cpp|ollama|lmdeploy|(^|/)nim/"
)
_SERVERS = re.compile(
    r"tritonserver|torchserve|tensorflow/serving|text-embeddings-inference|infinity|bentoml"
)

_NOTEBOOKS = re.compile(r"jupyter|notebook|rstudio|code-server|openvscode")


def is_notebook(container: Container) -> bool:
    """Whether it is a notebook: its port serves the one person that works in it, so it is no server."""
    image = "" if container.image is None else container.image.repository
    told = [*container.words[:1], image, container.name]
    return any(_NOTEBOOKS.search(word) is not None for word in told)


def serves_language_model(container: Container) -> bool:
    """Whether it is a server of language models."""
    return container.image is not None and _LANGUAGE_MODELS.search(container.image.repository) is not None


def serves(template: PodTemplate) -> bool:
    """Whether pods of this template answer requests: a known server, or a port that is not for metrics."""
    return any(
        serves_language_model(one)
        or (one.image is not None and _SERVERS.search(one.image.repository) is not None)
        or (
            not is_notebook(one)
            and any(port.text_at("name") != "metrics" for port in one.field.at("ports").items())
        )
        for one in template.containers
        if one.has_gpu
    )
