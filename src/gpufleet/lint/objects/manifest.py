"""One Kubernetes object of the input: what it is, its pod templates, and where its fields stand."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpufleet.lint.objects.pods import PodTemplate
from gpufleet.lint.objects.template_paths import makes_final_pods, pod_templates
from gpufleet.lint.source.fields import Field
from gpufleet.lint.source.nodes import Mapping, Sequence
from gpufleet.lint.source.parse import Parsed
from gpufleet.lint.source.text import Problem, SourceText
from gpufleet.model.model_errors import shortened
from gpufleet.model.worked_out_once import worked_out_once

DASHBOARD, RULE_FILE = "dashboard", "rules"
"""What stands for a kind in files that have none: a dashboard of Grafana, and rules of Prometheus."""

TITLE_CHARACTERS_MAX = 600
"""Namespace and name have at most 253 characters each where a server takes them."""


@dataclass(frozen=True)
class Manifest:
    """An object; ``document`` is the number of its document in the text. ``stands_for`` is the kind of a file
    that is no object, and empty in objects.
    """

    source: SourceText
    root: Field
    document: int = 0
    stands_for: str = ""

    @worked_out_once
    def group(self) -> str:
        """The API group, without version."""
        version = self.root.text_at("apiVersion") or ""
        return version.rpartition("/")[0]

    @worked_out_once
    def kind(self) -> str:
        """The kind."""
        return self.stands_for or self.root.text_at("kind") or ""

    @worked_out_once
    def name(self) -> str:
        """The object's name, or the beginning of it where the server is to complete it."""
        text_at = self.root.text_at
        if self.stands_for:
            return text_at("title") or ""
        return text_at("metadata", "name") or text_at("metadata", "generateName") or ""

    @worked_out_once
    def namespace(self) -> str:
        """The object's namespace, empty if none is written."""
        return self.root.text_at("metadata", "namespace") or ""

    @worked_out_once
    def title(self) -> str:
        """How people name it."""
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return shortened(f"{self.kind} {place}".rstrip(), TITLE_CHARACTERS_MAX)

    @worked_out_once
    def templates(self) -> tuple[PodTemplate, ...]:
        """The object's pod templates."""
        return pod_templates(self.group, self.kind, self.root)

    @property
    def has_final_pods(self) -> bool:
        """Whether pods are made as the object says, as far as lint knows its kind."""
        return makes_final_pods(self.group, self.kind)

    @worked_out_once
    def labels(self) -> dict[str, str]:
        """The object's own labels."""
        place = ("metadata", "labels")
        return {**dict.fromkeys(self.root.names_at(*place), ""), **self.root.texts_at(*place)}

    def annotation(self, name: str) -> str | None:
        """The object's own annotation of this name."""
        return self.root.text_at("metadata", "annotations", name)


def manifests_of(source: SourceText, parsed: Parsed) -> tuple[list[Manifest], list[Problem], int]:
    """The objects of a text, what is none, and how many documents are YAML of another sort."""
    found: list[Manifest] = []
    problems: list[Problem] = []
    others = 0
    for number, node in enumerate(parsed.documents):
        for field in _objects(Field(node)):
            if isinstance(field.node, Mapping):
                has_kind, has_version = field.at("kind").exists, field.at("apiVersion").exists
                if has_kind and has_version:
                    found.append(Manifest(source, field, number))
                elif has_kind or has_version:
                    missing = "apiVersion" if has_kind else "kind"
                    problems.append(_problem(source, field, f"an object without {missing}"))
                elif kind := _stands_for(field):
                    found.append(Manifest(source, field, number, kind))
                else:
                    others += 1
            elif field.exists:
                others += 1
    return found, problems, others


def _stands_for(field: Field) -> str:
    """What a file without a kind is: its panels or its groups of rules tell; empty for another."""
    panels, groups = field.at("panels"), field.at("groups").items()
    if isinstance(panels.node, Sequence) and (field.at("schemaVersion").exists or field.at("title").exists):
        return DASHBOARD
    return RULE_FILE if groups and all(isinstance(one.at("rules").node, Sequence) for one in groups) else ""


def _objects(field: Field) -> Iterator[Field]:
    """Lists are taken apart, also those within lists."""
    items = field.at("items")
    if (field.text_at("kind") or "").endswith("List") and isinstance(items.node, Sequence):
        for item in items.items():
            yield from _objects(item)
    else:
        yield field


def _problem(source: SourceText, field: Field, reason: str) -> Problem:
    return Problem(source.name, source.position(field.offset), reason)


def has_gpu_pods(manifest: Manifest) -> bool:
    """Whether pods of the object run on GPUs, those of the GPU stack itself left out."""
    return any(one.uses_gpu and not one.is_gpu_infrastructure for one in manifest.templates)


def has_workload_pods(manifest: Manifest) -> bool:
    """Whether the object makes pods that are not part of the GPU stack itself."""
    return any(not one.is_gpu_infrastructure for one in manifest.templates)


def by_kind(manifests: Iterable[Manifest]) -> dict[str, list[Manifest]]:
    """The objects by their kinds, in the order of the input."""
    found: dict[str, list[Manifest]] = {}
    for one in manifests:
        found.setdefault(one.kind, []).append(one)
    return found
