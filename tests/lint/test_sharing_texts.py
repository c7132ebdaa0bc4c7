"""A text in a ConfigMap that says how GPUs are shared: each value of a wrong type is told with its field."""

from types import UnionType
from typing import Union, get_args, get_origin

import msgspec
import pytest

from gpufleet.devices.sharing.own import ConfigText
from gpufleet.devices.sharing.plugin_text import PluginConfigText
from gpufleet.lint.objects.shapes import NUMBER, TEXT, TRUTH, Shape
from gpufleet.lint.objects.sharing_texts import OWN_SHAPE, PLUGIN_SHAPE
from gpufleet.lint.run import read
from gpufleet.lint.source.text import SourceText

SEVERAL = "several types"
"""The shape of a field that may have values of several types."""


def told(text: str) -> list[str]:
    """What is told of a ConfigMap with this text."""
    lines = "".join(f"    {line}\n" for line in text.splitlines())
    whole = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata:\n  any: |\n{lines}"
    return [str(one) for one in read(SourceText("a.yaml", whole)).problems]


TURNS = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: %s}]}}"
OWN = "version: gpufleet.io/v1alpha1\npools: {default: [{gpus: rest, %s}]}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (TURNS % "four", "sharing.timeSlicing.resources[0].replicas is 'four', expected a whole number"),
        (TURNS % "'4'", "sharing.timeSlicing.resources[0].replicas is '4', expected a whole number"),
        (TURNS % "4.5", "sharing.timeSlicing.resources[0].replicas is '4.5', expected a whole number"),
        (
            "sharing: {mps: {renameByDefault: 1, resources: []}}",
            "sharing.mps.renameByDefault is '1', expected true or false",
        ),
        (
            "sharing: {timeSlicing: {resources: {name: a}}}",
            "sharing.timeSlicing.resources is a mapping, expected a list",
        ),
        (
            f"flags: {{migStrategy: 5}}\n{TURNS % 4}",
            "flags.migStrategy is '5', expected text, in quotes",
        ),
        (
            OWN % "timeSlice: {replicas: four}",
            "pools.default[0].timeSlice.replicas is 'four', expected a whole number",
        ),
        (OWN % "mps: {clients: [2]}", "pools.default[0].mps.clients is a list, expected a whole number"),
        (OWN % "mig: {profiles: {a: b}}", "pools.default[0].mig.profiles.a is 'b', expected a whole number"),
    ],
)
def test_a_value_of_a_wrong_type_is_told_with_its_field(text: str, problem: str) -> None:
    assert told(text) == [f"a.yaml:5:3: data.any, {problem}"]


@pytest.mark.parametrize(
    "text",
    [
        TURNS % 4,
        TURNS % "${REPLICAS}",
        OWN % "mps: {clients: 2, memory: 8Gi, renameByDefault: true}",
        "pools: {default: [{timeSlice: {replicas: four}}]}",
        "sharing: {replicas: four}",
        "sharing: [",
        "sharing",
    ],
)
def test_right_values_placeholders_and_texts_about_other_things_are_left_alone(text: str) -> None:
    assert told(text) == []


def shape_of(kind: object) -> Shape:
    """The shape of what the agent reads."""
    if get_origin(kind) in {UnionType, Union}:
        kinds = [one for one in get_args(kind) if one is not type(None)]
        return shape_of(kinds[0]) if len(kinds) == 1 else SEVERAL
    if get_origin(kind) is tuple:
        return [shape_of(get_args(kind)[0])]
    if get_origin(kind) is dict:
        return {"*": shape_of(get_args(kind)[1])}
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        fields = {one.encode_name: shape_of(one.type) for one in msgspec.structs.fields(kind)}
        return {name: shape for name, shape in fields.items() if shape != SEVERAL}
    return {str: TEXT, int: NUMBER, bool: TRUTH}.get(kind, TEXT)  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize(("kind", "shape"), [(PluginConfigText, PLUGIN_SHAPE), (ConfigText, OWN_SHAPE)])
def test_the_shapes_are_those_that_the_agent_reads(kind: type, shape: Shape) -> None:
    assert shape == shape_of(kind)
