"""GPU052: a token stands in the manifest, or a model is fetched anew at every start."""

import re
from collections.abc import Iterator

from gpufleet.lint.objects.containers import Container
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.placeholders import is_placeholder
from gpufleet.lint.objects.pods import PodTemplate
from gpufleet.lint.objects.servers import serves_language_model
from gpufleet.lint.rule import Rule, RuleFinding, Severity

_TOKENS = re.compile(
    r"HF_TOKEN|HUGGING_?FACE_(HUB_)?TOKEN|NGC_API_KEY|WANDB_API_KEY|AWS_SECRET_ACCESS_KEY|OPENAI_API_KEY"
)
_HUB_MODEL = re.compile(
    r"(?:^|\s)(?:--(?:model|model-id|model-path|model_path)[= ]|vllm serve )([\w.-]+/[\w.-]+)(?:\s|$)"
)


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding]:
    """Each token written out, and each server that keeps nothing of what it fetches."""
    for template in manifest.templates:
        for container in template.all_containers:
            yield from _tokens(container)
        for container in template.containers:
            model = _HUB_MODEL.search(" ".join(container.words))
            if model and serves_language_model(container) and not _keeps(template, container):
                says = f"container {container.name} fetches {model[1]} from the hub at every start"
                advice = "mount a volume that outlives the pod at its cache, or the model itself"
                yield RuleFinding(container.field, says, advice)


def _tokens(container: Container) -> Iterator[RuleFinding]:
    for variable in container.env:
        value = (variable.value or "").strip()
        if _TOKENS.fullmatch(variable.name) and value and not is_placeholder(value):
            says = f"the value of {variable.name} stands in the manifest"
            yield RuleFinding(
                variable.field, says, "put it into a Secret and name it in valueFrom.secretKeyRef"
            )


def _keeps(template: PodTemplate, container: Container) -> bool:
    lasting = {one.name for one in template.volumes if not one.empty_dir.exists}
    return any(mount.volume in lasting and mount.path != "/dev/shm" for mount in container.mounts)  # noqa: S108


RULE = Rule("GPU052", "Token in the manifest, model fetched anew", Severity.WARNING, check)
