"""GPU061: the image has a tag that its registry does not have."""

from collections.abc import Iterator

from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.published_tags import AS_OF, AbsentTag, LaterTag, presence
from gpufleet.lint.rule import Rule, RuleFinding, Severity, Unjudged


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding | Unjudged]:
    """Each container with such an image."""
    for template in manifest.templates:
        for container in template.all_containers:
            image = container.image
            if image is None:
                continue
            field, name = container.field.at("image"), image.repository
            match presence(image):
                case AbsentTag(why, advice):
                    says = f"container {container.name}: {name} has no tag {image.tag}, because {why}"
                    yield RuleFinding(field, says, advice)
                case LaterTag():
                    yield Unjudged(field, f"tags of {name} that are newer than {AS_OF}")


RULE = Rule("GPU061", "tag that is not in the registry", Severity.WARNING, check)
