"""GPU011: the image of a GPU workload has a tag that moves, and CUDA with it."""

from collections.abc import Iterator

from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.rule import Rule, RuleFinding, Severity


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding]:
    """Each container that uses a GPU and has an image without a version."""
    for template in manifest.templates:
        for container in template.all_containers:
            image = container.image
            if (
                image is None
                or image.is_pinned
                or image.is_left_open
                or not (container.has_gpu or image.is_for_gpus)
            ):
                continue
            which = f"tag {image.tag}" if image.tag else "no tag"
            says = f"image {image.text} of container {container.name} has {which}"
            yield RuleFinding(
                container.field.at("image"),
                says,
                "pin a version, and its digest, that fits the driver of the nodes",
            )


RULE = Rule("GPU011", "GPU image without a version", Severity.WARNING, check)
