"""A label, annotation, taint or resource of Kubernetes is spelt in one module, and the others import it.

``kube.keys`` has those that people and other projects write on pods, ``kube.meanings`` those of nodes and
devices, ``model`` those by which the engine decides; a name that one module alone needs stands there.
"""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

from tests.conventions.project import ROOT, python_files, tree

SOURCE = ROOT / "src" / "gpufleet"
NAME = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+/[A-Za-z0-9._-]+")
API_VERSION = re.compile(r"[a-z0-9.-]+/v[0-9]+((alpha|beta)[0-9]+)?")
"""The format of one kind of document; it changes where that document does."""

SPELL_NAMES_THEMSELVES = {
    "auditor": "imports nothing of ours on purpose, so that it can judge us",
    "simulation": "writes as people and controllers do, which know nothing of our constants",
    "explain": "quotes to people what they write",
    "cluster": "the topology of a zone and a region, which it hands to the engine as levels",
}


def spelt(module: ast.Module) -> set[str]:
    """The names of Kubernetes that a module spells."""
    found = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and NAME.fullmatch(node.value):
            found.add(node.value)
    return {one for one in found if not API_VERSION.fullmatch(one)}


def spellings(paths: list[Path]) -> dict[str, list[str]]:
    """The modules that spell each name."""
    by_name: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        for one in spelt(tree(path)):
            by_name[one].append(str(path.relative_to(SOURCE)))
    return by_name


def test_a_name_of_kubernetes_is_spelt_in_one_module() -> None:
    paths = [
        path
        for path in python_files("src")
        if path.is_relative_to(SOURCE) and path.relative_to(SOURCE).parts[0] not in SPELL_NAMES_THEMSELVES
    ]
    assert len(paths) > 500
    twice = {name: modules for name, modules in spellings(paths).items() if len(modules) > 1}
    assert twice == {}


@pytest.mark.parametrize(
    ("text", "is_name"),
    [
        ("nvidia.com/gpu", True),
        ("kueue.x-k8s.io/queue-name", True),
        ("gpufleet.io/v1alpha1", False),
        ("apps/v1", False),
        ("https://nvidia.com/gpu", False),
    ],
)
def test_what_counts_as_a_name(text: str, is_name: bool) -> None:
    assert spelt(ast.parse(f"found = {text!r}")) == ({text} if is_name else set())
