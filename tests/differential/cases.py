"""A case: a small cluster of its own and pods about which both schedulers are asked.

Thousands of cases live on one server at once. What keeps them apart is the case's token, which is part
of every name and of every label that a constraint looks at: asked pods select only the nodes of their
case, topology keys are named after it, claims and classes are its own. So a case means the same alone
and among others, and ``renamed`` makes another of it.
"""

import re
from dataclasses import dataclass
from typing import Any

import msgspec

Manifest = dict[str, Any]
"""An object of the API as one would write it in YAML, and as it shall end up.

A pod with ``metadata.deletionTimestamp`` is created and then deleted, without ever going; ``status`` of a
pod is written after it was created; that of a claim or volume is what its controller will say.
"""

TOKEN = re.compile(r"case-[0-9a-z]+\b")
CASE_LABEL = "case"


@dataclass(frozen=True)
class Case:
    """``objects`` are there before anybody decides; each of ``asked`` then waits for a node."""

    token: str
    objects: tuple[Manifest, ...]
    asked: tuple[Manifest, ...]
    themes: tuple[str, ...] = ()
    origin: str = ""

    def renamed(self, token: str) -> "Case":
        """The same case under another token."""

        def moved(manifests: tuple[Manifest, ...]) -> tuple[Manifest, ...]:
            text = msgspec.json.encode(manifests).decode().replace(self.token, token)
            return tuple(msgspec.json.decode(text))

        return Case(token, moved(self.objects), moved(self.asked), self.themes, self.origin)

    @property
    def nodes(self) -> frozenset[str]:
        """The names of its nodes."""
        return frozenset(name_of(one) for one in self.objects if one["kind"] == "Node")


def name_of(manifest: Manifest) -> str:
    """The name of an object."""
    return str(manifest["metadata"]["name"])


def namespace_of(manifest: Manifest) -> str:
    """Its namespace, "" for an object of the cluster."""
    return str(manifest["metadata"].get("namespace", ""))


def path_of(manifest: Manifest) -> str:
    """How it is called in answers: "namespace/name"."""
    return f"{namespace_of(manifest)}/{name_of(manifest)}"


def as_yaml(case: Case) -> str:
    """All objects of the case as one stream for kubectl, the asked pods last."""
    documents = [msgspec.yaml.encode(one).decode() for one in (*case.objects, *case.asked)]
    return "---\n".join(documents)
