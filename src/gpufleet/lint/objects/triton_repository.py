"""Which models Triton is given in a ConfigMap: its vLLM backend has a file that names model and division.

Elsewhere Triton's repository lies in a bucket or on a volume, and no manifest says what is in it. The fields
of the file are the arguments of vLLM's engine. ``other_model_servers`` reads the servers that have a command
line.
"""

from collections.abc import Iterator

import msgspec

from gpufleet.fit.options import Options, catalogue_model, serving_of
from gpufleet.lint.objects.containers import Container
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.other_model_servers import TRITON, OtherServed
from gpufleet.lint.objects.pods import PodTemplate, Volume
from gpufleet.lint.objects.vllm_command import options_of
from gpufleet.lint.source.fields import Field
from gpufleet.model.model_errors import InputError

MODEL_FILE = "model.json"


class ModelFile(msgspec.Struct, frozen=True):
    """What counts of the backend's file; other arguments do not change what weights take."""

    model: str
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    dtype: str = "auto"
    quantization: str | None = None
    load_format: str = "auto"
    cpu_offload_gb: float = 0

    @property
    def is_as_published(self) -> bool:
        """Whether all weights are on the GPUs, in the format of the model's own files."""
        plain = (self.dtype, self.load_format) == ("auto", "auto")
        return plain and not self.quantization and not self.cpu_offload_gb


def triton_served(
    manifest: Manifest, template: PodTemplate, container: Container, context: Context
) -> tuple[OtherServed, ...]:
    """The models that a container with Triton loads at its start, as far as ConfigMaps have them."""
    options = options_of(" ".join(container.words).split())
    repository = options.get("model-repository") or options.get("model-store") or ""
    if not repository.startswith("/") or options.get("model-control-mode", "none") != "none":
        # Of a bucket nothing is known, and what is loaded later is asked for by others.
        return ()
    maps = {one.name: one for one in context.of_kind("ConfigMap", beside=manifest)}
    return tuple(
        _served(text)
        for mount in container.field.items_at("volumeMounts")
        if _is_below(mount.text_at("mountPath") or "", repository)
        if (volume := template.volume(mount.text_at("name") or "")) is not None
        for text in _model_files(mount, volume, maps.get(volume.field.text_at("configMap", "name") or ""))
    )


def _is_below(path: str, folder: str) -> bool:
    return f"{path.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")


def _model_files(mount: Field, volume: Volume, config: Manifest | None) -> Iterator[str]:
    """The texts that the mount shows as files of that name."""
    if config is None:
        return
    items = volume.field.items_at("configMap", "items")
    paths = {one.text_at("key") or "": one.text_at("path") or "" for one in items}
    only = mount.text_at("subPath")
    for key, field in config.root.at("data").entries():
        path = paths.get(key, "") if items else key
        shown = (mount.text_at("mountPath") or "") if only == path else path
        if (only is None or only == path) and shown.rpartition("/")[2] == MODEL_FILE and field.text:
            yield field.text


def _served(text: str) -> OtherServed:
    try:
        found = msgspec.json.decode(text, type=ModelFile)
        model = catalogue_model(found.model)
        divided = Options("", tensor_parallel=found.tensor_parallel_size, stages=found.pipeline_parallel_size)
        serving = serving_of(divided, model)
    except (msgspec.MsgspecError, InputError, ValueError):
        return OtherServed(TRITON, None, None)
    return OtherServed(TRITON, model, serving) if found.is_as_published else OtherServed(TRITON, None, None)
