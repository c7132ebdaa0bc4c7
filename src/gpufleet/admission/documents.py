"""The policies as YAML: what the chart installs and ``gpufleet admission policies`` prints.

The files below ``generated``, and the one of ``kube/manifests`` with the policy that completes pods, are this
module's output, so that the chart needs no Python; a test holds them to it.
``python -m gpufleet.admission.documents`` writes them anew.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from gpufleet.admission.completion_policies import completion_policies
from gpufleet.admission.images import ImagePolicy, image_policies, registries_of
from gpufleet.admission.policies import Action, lint_policies
from gpufleet.completion.additions import WITHOUT_SETTINGS, Addition
from gpufleet.files.atomic_write import write_whole
from gpufleet.kube import manifests

Object = dict[str, Any]
FOLDER = Path(__file__).parent / "generated"
FILES: dict[str, Callable[[], list[Object]]] = {
    "lint.yaml": lint_policies,
    # With the binding for namespaces without the label, which the chart takes or leaves.
    "images.yaml": lambda: image_policies(Action.WARN),
    "runtime-class.yaml": lambda: completion_policies([Addition.RUNTIME_CLASS]),
}
HEAD = "# Written by `python -m gpufleet.admission.documents` from the rules of gpufleet lint.\n"
INSTALLED = manifests.FOLDER / "pod-completion.yaml"
"""What `gpufleet up` applies too, among all that it installs."""

INSTALLED_HEAD = """\
# Completes the pods of namespaces with the label gpufleet.io/managed=true, so that the same YAML works
# as before: who asks for GPUs gets our scheduler's name, the toleration of pools in which whole GPUs
# and shares mix, and for a share the slot that the kubelet counts. HAMi's whole GPUs beside a share
# become slots. What is there already stays; another scheduler's name is left alone. One patch makes all
# additions: where it fails, no pod gets a part of them. The scheduler looks at each pod again, and a share
# without its slot waits with that reason. The variable `additions` says which are made.
# Written by `python -m gpufleet.admission.documents` from the data of gpufleet/completion/additions.py.
"""
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


def installed() -> str:
    """The file of the policy that completes pods, with the additions that every installation has."""
    return INSTALLED_HEAD + written(completion_policies(WITHOUT_SETTINGS))


def _write() -> None:
    FOLDER.mkdir(exist_ok=True)
    write_whole(INSTALLED, installed().encode())
    for name, text in generated().items():
        write_whole(FOLDER / name, text.encode())


if __name__ == "__main__":
    _write()
