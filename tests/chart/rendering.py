"""What helm makes of the chart: verbs for its tests.

objects = rendered({"agent": {"accounting": True}})
daemon_set = one(objects, "DaemonSet", "gpufleet-agent")
"""

import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from tests.chart.programs import HELM, program
from tests.conventions.project import ROOT

CHART = ROOT / "charts" / "gpufleet"
FULL_VALUES = Path(__file__).with_name("full-values.yaml")
NAMESPACE = "gpufleet-system"
RELEASE = "fleet"
VERSION = "1.37.0"

Object = dict[str, Any]


def helm(*arguments: str | Path, code: int = 0, environment: Mapping[str, str] | None = None) -> str:
    """What helm prints; it must end with this code. What it says of an error is part of it."""
    done = subprocess.run(
        [program(HELM), *arguments], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == code, f"helm {' '.join(map(str, arguments))}\n{done.stdout}\n{done.stderr}"
    return done.stdout if code == 0 else done.stdout + done.stderr


def as_options(values: Mapping[str, Any] | Path | None) -> list[str]:
    """Values as options of helm: a file of them, or some that differ from the defaults."""
    if values is None:
        return []
    if isinstance(values, Path):
        return [f"--values={values}"]
    return [f"--set-json={key}={msgspec.json.encode(value).decode()}" for key, value in values.items()]


def template(
    values: Mapping[str, Any] | Path | None = None, *, version: str = VERSION, namespace: str = NAMESPACE
) -> str:
    """The rendered chart as YAML."""
    if isinstance(values, Path) and values != FULL_VALUES:
        # A test writes such a file, and may write another text into it.
        return helm("template", RELEASE, CHART, *_options(values, version, namespace))
    return _template(*_options(values, version, namespace))


def _options(values: Mapping[str, Any] | Path | None, version: str, namespace: str) -> list[str]:
    return [f"--kube-version={version}", f"--namespace={namespace}", *as_options(values)]


@cache
def _template(*options: str) -> str:
    """The chart with these options, which many tests look at: the chart stays as it is meanwhile."""
    return helm("template", RELEASE, CHART, *options)


def rendered(
    values: Mapping[str, Any] | Path | None = None, *, version: str = VERSION, namespace: str = NAMESPACE
) -> list[Object]:
    """Every object of the rendered chart, hooks included."""
    text = template(values, version=version, namespace=namespace)
    decoded = (msgspec.yaml.decode(document) for document in text.split("\n---\n"))
    return [one for one in decoded if one]


def refused(values: Mapping[str, Any]) -> str:
    """What helm says of values that cannot be."""
    return helm("template", RELEASE, CHART, *as_options(values), code=1)


def one(objects: Iterable[Object], kind: str, name: str) -> Object:
    """The object of this kind and name; there must be one."""
    (found,) = [its for its in objects if (its["kind"], its["metadata"]["name"]) == (kind, name)]
    return found


def pod_specs(objects: Iterable[Object]) -> dict[str, Object]:
    """The pod of each workload, as "Kind name"."""
    found = {}
    for its in objects:
        if its["kind"] == "Pod":
            found[f"Pod {its['metadata']['name']}"] = its["spec"]
        elif "template" in its.get("spec", {}):
            found[f"{its['kind']} {its['metadata']['name']}"] = its["spec"]["template"]["spec"]
    return found
