"""Which ConfigMaps say how GPUs are given out: those that parts of the GPU stack name.

ConfigMaps are not listed as a whole, because people keep private things in them.
"""

from collections.abc import Iterable, Iterator

from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.source.fields import Field

_AGENTS_FLAG = "--config-map="


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
            namespace, slash, name = word.removeprefix(_AGENTS_FLAG).partition("/")
            if word.startswith(_AGENTS_FLAG) and slash:
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
