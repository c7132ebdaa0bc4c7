"""Whether the texts in ConfigMaps that say how GPUs are shared have values of the right types.

An agent, or NVIDIA's device plugin, refuses a whole text for one such value and goes on sharing as before. No
API server looks into a text, so its owner is not told before that. The shapes are those of both formats
(docs/sharing.md); what else a value has to be, such as a number in a range, depends on the node.
"""

from collections.abc import Iterator

from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.placeholders import is_placeholder
from gpufleet.lint.objects.shapes import NUMBER, TEXT, TRUTH, Shape, misfits, written
from gpufleet.lint.source.fields import Field
from gpufleet.lint.source.parse import parse
from gpufleet.lint.source.text import Problem, SourceText
from gpufleet.model.model_errors import printable

_SWITCHES: dict[str, Shape] = {"renameByDefault": TRUTH, "failRequestsGreaterThanOne": TRUTH}
_REPLICATED: Shape = {**_SWITCHES, "resources": [{"name": TEXT, "replicas": NUMBER, "rename": TEXT}]}
_NAMED: Shape = [{"pattern": TEXT, "name": TEXT}]
PLUGIN_SHAPE: Shape = {
    "version": TEXT,
    "flags": {
        "migStrategy": TEXT,
        "failOnInitError": TRUTH,
        "mpsRoot": TEXT,
        "nvidiaDriverRoot": TEXT,
        "nvidiaDevRoot": TEXT,
        "gdrcopyEnabled": TRUTH,
        "gdsEnabled": TRUTH,
        "mofedEnabled": TRUTH,
        "useNodeFeatureAPI": TRUTH,
        "deviceDiscoveryStrategy": TEXT,
        "plugin": {
            "passDeviceSpecs": TRUTH,
            "deviceIDStrategy": TEXT,
            "cdiAnnotationPrefix": TEXT,
            "nvidiaCTKPath": TEXT,
            "containerDriverRoot": TEXT,
            "sharedDevicesAllocationPolicy": TEXT,
        },
        "gfd": {"oneshot": TRUTH, "noTimestamp": TRUTH, "outputFile": TEXT, "machineTypeFile": TEXT},
    },
    "resources": {"gpus": _NAMED, "mig": _NAMED},
    "sharing": {"timeSlicing": _REPLICATED, "mps": _REPLICATED},
    "imex": {"channelIDs": [NUMBER], "required": TRUTH},
    "health": {"disabled": TRUTH, "eventTypes": [TEXT], "ignoredXIDs": [NUMBER]},
}
"""NVIDIA's config file v1, without the fields that may have values of several types."""

OWN_SHAPE: Shape = {
    "version": TEXT,
    "pools": {
        "*": [
            {
                "exclusive": {},
                "timeSlice": {**_SWITCHES, "replicas": NUMBER},
                "mps": {**_SWITCHES, "clients": NUMBER, "threads": NUMBER},
                "mig": {"layout": [{"profile": TEXT, "start": NUMBER}], "profiles": {"*": NUMBER}},
                "fractions": {"maxShares": NUMBER},
            }
        ]
    },
}
"""The format of gpufleet's own, without the fields that may have values of several types."""


def wrong_sharing_types(manifest: Manifest) -> Iterator[Problem]:
    """Every field of a wrong type in the texts about sharing that a ConfigMap holds."""
    if manifest.kind != "ConfigMap":
        return
    for name, field in manifest.root.at("data").entries():
        # Most entries of ConfigMaps are something else, and all of them are looked at.
        if field.text is None or not ("sharing" in field.text or "pools" in field.text):
            continue
        for document in parse(SourceText(name, field.text)).documents:
            root = Field(document)
            shape = _shape_of(root)
            for found, expected in () if shape is None else misfits(root, shape):
                if found.text is not None and is_placeholder(found.text):
                    continue
                value = written(found.node) if found.text is None else printable(found.text)
                reason = f"{field.path}, {found.path} is {value}, expected {expected}"
                # The text has no places of its own in the file: the entry that holds it is named.
                yield Problem(manifest.source.name, manifest.source.position(field.offset), reason)


def _shape_of(root: Field) -> Shape | None:
    """The shape of the format in which a text is written; None for a text about other things."""
    if (root.text_at("version") or "").startswith("gpufleet.io/"):
        return OWN_SHAPE
    sharing = root.at("sharing")
    # As guides write it, the version may be missing.
    is_plugin = sharing.at("timeSlicing").exists or sharing.at("mps").exists
    return PLUGIN_SHAPE if is_plugin else None
