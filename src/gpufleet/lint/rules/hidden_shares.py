"""GPU040: shares of a GPU or a MIG instance are offered under the name of whole ones."""

from collections.abc import Iterator

from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.rule import Rule, RuleFinding, Severity
from gpufleet.lint.source.fields import Field
from gpufleet.lint.source.parse import parse
from gpufleet.lint.source.text import SourceText

# In NVIDIA's configuration of sharing.
_WAYS = ("timeSlicing", "mps")


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding]:
    """Each entry of a ConfigMap that is such a configuration of NVIDIA's device plugin."""
    for name, field in manifest.root.at("data").entries():
        # Most entries of ConfigMaps are something else.
        if field.text is None or "replicas" not in field.text:
            continue
        for document in parse(SourceText(name, field.text)).documents:
            for way in _WAYS:
                hidden = _hidden(Field(document).at("sharing", way))
                if hidden:
                    says = f"{name} offers each {hidden} several times under its own name"
                    advice = f"set renameByDefault: true in {way}: shares are then called {hidden}.shared"
                    yield RuleFinding(field, says, advice)


def _hidden(way: Field) -> str:
    """The first resource that is shared and keeps its name."""
    if way.at("renameByDefault").is_true:
        return ""
    for one in way.at("resources").items():
        if (one.at("replicas").integer or 0) > 1 and not one.at("rename").exists:
            return one.at("name").text or ""
    return ""


RULE = Rule(
    "GPU040",
    "Shares under the name of whole GPUs or instances",
    Severity.WARNING,
    check,
    concerns=lambda manifest: manifest.kind == "ConfigMap",
)
