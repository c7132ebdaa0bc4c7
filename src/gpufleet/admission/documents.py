"""The policies as YAML: what the chart installs and ``gpufleet admission policies`` prints.

The files below ``generated`` are this module's output, so that the chart needs no Python; a test holds them
to it. ``python -m gpufleet.admission.documents`` writes them anew.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from gpufleet.admission.images import ImagePolicy, image_policies, registries_of
from gpufleet.admission.policies import Action, lint_policies
from gpufleet.files.atomic_write import write_whole

Object = dict[str, Any]
FOLDER = Path(__file__).parent / "generated"
FILES: dict[str, Callable[[], list[Object]]] = {
    "lint.yaml": lint_policies,
    # With the binding for namespaces without the label, which the chart takes or leaves.
    "images.yaml": lambda: image_policies(Action.WARN),
}
HEAD = "# Written by `python -m gpufleet.admission.documents` from the rules of gpufleet lint.\n"
WIDTH = 118


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Long texts as blocks, as people write expressions, and each list where it is."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        """Write what occurs twice in both places."""
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def as_yaml(default: str, registries: tuple[str, ...]) -> str:
    """All policies: how namespaces without the label are treated, and from where images may come."""
    policy = ImagePolicy(registries_of(registries))
    return written([*lint_policies(Action(default)), *image_policies(policy=policy)])


def written(objects: list[Object]) -> str:
    """Objects as documents of YAML."""
    return "---\n".join(
        yaml.dump(one, Dumper=_Dumper, sort_keys=False, width=WIDTH, allow_unicode=True) for one in objects
    )


def generated() -> dict[str, str]:
    """The files by name."""
    return {name: HEAD + written(make()) for name, make in FILES.items()}


def _write() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, text in generated().items():
        write_whole(FOLDER / name, text.encode())


if __name__ == "__main__":
    _write()
