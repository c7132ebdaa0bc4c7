"""The policy on images: which registries they may come from, and that they are pinned by digest.

A namespace says by its label ``gpufleet.io/image-policy`` whether what does not fit is told, warned of or
refused, and by its annotation ``gpufleet.io/allowed-registries`` from where its images may come; without the
annotation the list of the installation counts. Init containers, ephemeral containers and volumes of images
are judged as containers are. Which image a tag stands for, and who signed it, no policy of the API server
can find out. ``image_findings`` is the same verdict in Python, for the webhook and for plans.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpufleet.admission.cel.pods import Variable, kind_variables
from gpufleet.admission.cel.words import is_whole_match, literal, literals
from gpufleet.admission.policies import (
    VERSION,
    Action,
    Object,
    as_objects,
    bindings,
    not_of_the_system,
    resource_rule,
    resource_rules,
)
from gpufleet.kube.meanings.image_policies import ALLOWED_REGISTRIES, IMAGE_POLICY
from gpufleet.lint.objects.images import read_image
from gpufleet.lint.objects.pods import PodTemplate
from gpufleet.lint.rule import Severity
from gpufleet.model.model_errors import InputError

LABEL, REGISTRIES = IMAGE_POLICY, ALLOWED_REGISTRIES
NAME = "gpufleet-images"
DIGEST = re.compile(r".*@sha256:[0-9a-f]{64}")
_REGISTRY = re.compile(r"[a-z0-9][a-z0-9._-]*(:[0-9]+)?(/[a-z0-9._-]+)*")
_HAS_HOST = re.compile(r"([^/]*[.:][^/]*|localhost)/.*")
_HUB, _LIBRARY = "docker.io/", "docker.io/library/"


@dataclass(frozen=True)
class ImagePolicy:
    """What images must be. Without ``registries`` any will do; ``digests`` asks for a digest."""

    registries: tuple[str, ...] = ()
    digests: bool = True


DEFAULT = ImagePolicy()


def image_findings(image: str, policy: ImagePolicy) -> list[str]:
    """What is wrong with a reference, in words that follow it."""
    found = []
    if policy.digests and DIGEST.fullmatch(image) is None:
        found.append("has no digest")
    place = _whole_name(read_image(image).repository)
    # With the slash: example.com/team does not stand for example.com/team-b.
    if policy.registries and not any(
        place == one or place.startswith(f"{one}/") for one in policy.registries
    ):
        found.append("comes from a registry that is not allowed")
    return found


def policy_of(annotations: Mapping[str, str], default: ImagePolicy = DEFAULT) -> ImagePolicy:
    """The policy of a namespace with these annotations."""
    text = annotations.get(REGISTRIES)
    if text is None:
        return default
    return ImagePolicy(tuple(one for part in text.split(",") if (one := part.strip())), default.digests)


def images_of(template: PodTemplate) -> list[str]:
    """The references of all images of a pod, each once."""
    spec = template.spec
    containers = [one for part in _CONTAINERS for one in spec.at(part).items()]
    containers += [spec.at(name) for name in template.model_servers]
    volumes = [one.at("image", "reference").text for one in spec.at("volumes").items()]
    return [one for one in dict.fromkeys((*(c.at("image").text for c in containers), *volumes)) if one]


def _whole_name(repository: str) -> str:
    """With the registry that a container runtime adds to a short name."""
    if _HAS_HOST.fullmatch(repository) is not None:
        return repository
    return (_HUB if "/" in repository else _LIBRARY) + repository


_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")


def image_policies(default: Action = Action.OFF, policy: ImagePolicy = DEFAULT) -> list[Object]:
    """The policy with its bindings; ``default`` is for namespaces without the label."""
    rules = resource_rules(updates=False)
    # The image of a running pod can be changed, and containers to debug it come later.
    rules.append(resource_rule("", ["pods", "pods/ephemeralcontainers"], ["UPDATE"]))
    spec = {
        "failurePolicy": "Ignore",
        "matchConstraints": {"namespaceSelector": not_of_the_system(), "resourceRules": rules},
        "variables": as_objects(_variables(policy)),
        "validations": [
            _validation("unpinned", "without a digest", "name the image by its digest: NAME@sha256:DIGEST"),
            _validation("strange", "of a registry that is not allowed", "take it from one that is allowed"),
        ],
    }
    found = {"apiVersion": VERSION, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": NAME}}
    return [{**found, "spec": spec}, *bindings(NAME, Severity.ERROR, default, LABEL, refuses_updates=True)]


def _variables(policy: ImagePolicy) -> tuple[Variable, ...]:
    repository = "image.split('@')[0].find('^(.*/)?[^/:]*')"
    whole = (
        f"[{repository}].map(r, {is_whole_match('r', _HAS_HOST)} ? r : "
        f"(r.contains('/') ? {literal(_HUB)} : {literal(_LIBRARY)}) + r)[0]"
    )
    told = f"namespaceObject.metadata.?annotations[?{literal(REGISTRIES)}]"
    listed = f"{told}.orValue('').split(',').map(one, one.trim()).filter(one, one != '')"
    is_allowed = (
        f"[{whole}].exists(place, variables.registries.exists(r, place == r || place.startsWith(r + '/')))"
    )
    return (
        *kind_variables(),
        # What a pod has already goes on: only what comes new is judged.
        Variable("known", f"oldObject == null ? [] : {_images('oldObject')}"),
        Variable(
            "images",
            f"variables.templates.map(t, {_images('t')}).flatten()"
            ".filter(image, image != '' && !(image in variables.known))",
        ),
        Variable("allowed", literals(policy.registries)),
        Variable("digests", "true" if policy.digests else "false"),
        Variable("registries", f"{told}.hasValue() ? {listed} : variables.allowed"),
        Variable(
            "unpinned",
            f"!variables.digests ? [] : variables.images.filter(image, !{is_whole_match('image', DIGEST)})",
        ),
        Variable(
            "strange",
            f"size(variables.registries) == 0 ? [] : variables.images.filter(image, !{is_allowed})",
        ),
    )


def _images(pod: str) -> str:
    parts = [f"{pod}.?spec.?{part}.orValue([]).map(c, string(c.?image.orValue('')))" for part in _CONTAINERS]
    parts.append(
        f"{pod}.?spec.?volumes.orValue([]).filter(v, v.?image.?reference.hasValue())"
        ".map(v, string(v.image.reference))"
    )
    return f"({' + '.join(parts)})"


def _validation(variable: str, what: str, advice: str) -> Object:
    words = literal(f" {what}; {advice}")
    return {
        "expression": f"size(variables.{variable}) == 0",
        "messageExpression": f"'images policy: ' + variables.{variable}.join(', ') + {words}",
        "message": f"images policy: an image {what}",
        "reason": "Forbidden",
    }


def registries_of(texts: Iterable[str]) -> tuple[str, ...]:
    """Registries and repositories as people list them. Raises InputError for a name that none can have."""
    for text in texts:
        if _REGISTRY.fullmatch(text) is None:
            expected = "a registry or a repository in it, such as registry.example.com/team"
            raise InputError("no registry", field="--registry", value=text, expected=expected)
    return tuple(texts)
