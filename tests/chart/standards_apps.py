"""The sample applications with the standards chart, in a folder of their own where helm may write.

here = copied(tmp_path)
pod = pods(here, "training")["Job sample"]
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from tests.chart.rendering import Object, as_options, helm, pod_specs
from tests.conventions.project import ROOT

APPS = ("inference", "training", "notebook")
CONVENTIONS = "charts/standards/templates/_conventions.tpl"


def copied(folder: Path) -> Path:
    """The standards chart and the applications, as in the repository."""
    for name in ("charts/standards", "examples/standards"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.tgz", "Chart.lock"))
    return folder


def update(here: Path) -> None:
    """What a team does to have the conventions as they are now."""
    for app in APPS:
        helm("dependency", "update", here / "examples" / "standards" / app)


def rendered_app(here: Path, app: str, decisions: Mapping[str, Any] | Path | None = None) -> str:
    """The application as YAML, with other decisions or a file of values if given."""
    values = (
        {f"standards.gpu.{name}": value for name, value in decisions.items()}
        if isinstance(decisions, Mapping)
        else decisions
    )
    return helm("template", "sample", here / "examples" / "standards" / app, *as_options(values))


def objects(here: Path, app: str, decisions: Mapping[str, Any] | Path | None = None) -> list[Object]:
    """The application's objects."""
    decoded = (msgspec.yaml.decode(text) for text in rendered_app(here, app, decisions).split("\n---\n"))
    return [one for one in decoded if one]


def pod(here: Path, app: str, decisions: Mapping[str, Any] | Path | None = None) -> Object:
    """The pod of the application's one workload."""
    (found,) = pod_specs(objects(here, app, decisions)).values()
    return found


def template_metadata(here: Path, app: str, decisions: Mapping[str, Any] | Path | None = None) -> Object:
    """The metadata of that pod."""
    workloads = (its["spec"] for its in objects(here, app, decisions))
    (found,) = [its["template"]["metadata"] for its in workloads if "template" in its]
    metadata: Object = found
    return metadata


def container(here: Path, app: str, decisions: Mapping[str, Any] | Path | None = None) -> Object:
    """The one container of that pod."""
    (found,) = pod(here, app, decisions)["containers"]
    its: Object = found
    return its


def refusal(here: Path, app: str, decisions: Mapping[str, Any]) -> str:
    """What helm says of decisions that cannot be."""
    values = {f"standards.gpu.{name}": value for name, value in decisions.items()}
    path = here / "examples" / "standards" / app
    return helm("template", "sample", path, *as_options(values), code=1)
