"""What gpufleet installs in a cluster: definitions, rights, and the policies that guard its grants.

The YAML files beside this one are complete and can be applied as they are; they name scheduler and agent
by their default accounts. ``manifests`` reads them for a version of Kubernetes and for another identity:
the scheduler's user stands in the guard, in the rights and nowhere else, the agent's in the policy that holds
it to its own node and in its rights. The Helm chart reads the same files.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from gpufleet.model.model_errors import InputError

FOLDER = Path(__file__).parent
MUTATING_POLICIES_SINCE = (1, 36)
"""From this version on MutatingAdmissionPolicy is stable and on; before, it is off and of another form."""

VALIDATING_POLICIES_SINCE = (1, 30)
"""From this version on ValidatingAdmissionPolicy is stable: without it grants cannot be guarded."""

_MUTATING = frozenset({"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"})
"""Kinds that are left out for a server that does not serve them."""


class Identity(msgspec.Struct, frozen=True):
    """The scheduler's identity: a service account, and the Lease by which it leads, in one namespace."""

    namespace: str = "gpufleet-system"
    account: str = "gpufleet-scheduler"

    @property
    def user(self) -> str:
        """The name under which the API server knows it."""
        return f"system:serviceaccount:{self.namespace}:{self.account}"

    @property
    def groups(self) -> tuple[str, str]:
        """The groups that every service account of the namespace is in."""
        return ("system:serviceaccounts", f"system:serviceaccounts:{self.namespace}")


DEFAULT_IDENTITY = Identity()
"""The names that stand in the YAML files beside this module."""

AGENT_ACCOUNT = "gpufleet-agent"
"""The service account of every node's agent, in the scheduler's namespace."""


def manifests(version: tuple[int, int], identity: Identity = DEFAULT_IDENTITY) -> tuple[dict[str, Any], ...]:
    """The objects for a server of this version (major, minor), in the order in which to apply them.

    Raises InputError for a server that cannot guard grants at all.
    """
    if version < VALIDATING_POLICIES_SINCE:
        found = ".".join(str(part) for part in version)
        expected = "1.30 or later, which has ValidatingAdmissionPolicy"
        raise InputError("a server that cannot guard grants", value=found, expected=expected)
    served = (
        one
        for one in _documents(identity)
        if version >= MUTATING_POLICIES_SINCE or one["kind"] not in _MUTATING
    )
    return tuple(sorted(served, key=_rank))


def definitions() -> tuple[dict[str, Any], ...]:
    """The CustomResourceDefinitions of gpufleet's kinds."""
    return tuple(one for one in _documents(DEFAULT_IDENTITY) if one["kind"] == "CustomResourceDefinition")


def definition_names() -> tuple[str, ...]:
    """The names of the definitions of gpufleet's kinds, such as fleetqueues.gpufleet.io."""
    return tuple(str(one["metadata"]["name"]) for one in definitions())


def _documents(identity: Identity) -> Iterator[dict[str, Any]]:
    for path in sorted(FOLDER.glob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        # Objects that are not ours to rename keep their names: only account and namespace are swapped.
        text = text.replace(DEFAULT_IDENTITY.user, identity.user)
        text = text.replace(DEFAULT_IDENTITY.namespace, identity.namespace)
        for document in text.split("\n---\n"):
            decoded: dict[str, Any] = msgspec.yaml.decode(document)
            yield _of_account(decoded, identity)


def _of_account(document: dict[str, Any], identity: Identity) -> dict[str, Any]:
    """The document with the account of ``identity`` in place of the default one: as an account, and as a
    subject of rights.
    """
    own = DEFAULT_IDENTITY.account
    if document["kind"] == "ServiceAccount" and document["metadata"]["name"] == own:
        document["metadata"]["name"] = identity.account
    for subject in document.get("subjects", ()):
        if subject["name"] == own:
            subject["name"] = identity.account
    return document


def _rank(document: dict[str, Any]) -> int:
    """What others refer to goes first; a policy goes before its binding."""
    first = ("Namespace", "CustomResourceDefinition", "ServiceAccount")
    kind: str = document["kind"]
    if kind in first:
        return first.index(kind)
    return len(first) + kind.endswith("Binding")
