"""Which ConfigMaps say how GPUs are given out: those that parts of the GPU stack name.

ConfigMaps are not listed as a whole, because people keep private things in them.
"""

from collections.abc import Iterable, Iterator

from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.source.fields import Field

# What agents follow in the API: a ConfigMap of their own, or those of NVIDIA's guides.
_AGENTS_FLAGS = ("--config-map=", "--nvidia-config-map=")

CONFIG_MAPS_OF_GUIDES = "ConfigMap with a name of NVIDIA's guides"
"""What stands for these where a check reads them: others may be readable while these are not."""


def config_maps_of_stack(objects: Iterable[Manifest]) -> set[tuple[str, str]]:
    """Namespace and name of each."""
    return {one for manifest in objects for one in _named(manifest)}


def _named(manifest: Manifest) -> Iterator[tuple[str, str]]:
    if manifest.kind != "DaemonSet":
        return
    for template in manifest.templates:
        if not template.is_gpu_infrastructure:
            continue
        yield from ((manifest.namespace, name) for name in _mounted(template.spec))
        for word in (word for container in template.containers for word in container.words):
            for flag in _AGENTS_FLAGS:
                namespace, slash, name = word.removeprefix(flag).partition("/")
                if word.startswith(flag) and slash:
                    yield namespace, name


def _mounted(spec: Field) -> Iterator[str]:
    for volume in spec.at("volumes").items():
        fields = (
            volume.at("configMap"),
            *(one.at("configMap") for one in volume.at("projected", "sources").items()),
        )
        for field in fields:
            if name := field.at("name").text:
                yield name
