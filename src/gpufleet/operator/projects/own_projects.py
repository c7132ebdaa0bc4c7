"""Which projects a person owns: the API server tells a person which objects their roles name."""

import msgspec

from gpufleet.kube.answer import decode
from gpufleet.kube.client import Client
from gpufleet.kube.objects.structure import Structure
from gpufleet.kube.resources import GPU_PROJECTS, Kind

RULES_REVIEWS = Kind(
    "authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", namespaced=False
)
NAMESPACE = "default"
"""The question is of one namespace; rights over kinds of the cluster are in the answer of each."""


class _Rule(Structure, frozen=True):
    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()


class _Status(Structure, frozen=True):
    resource_rules: tuple[_Rule, ...] = ()


class _Review(Structure, frozen=True):
    status: _Status = _Status()


_REVIEW = msgspec.json.Decoder(_Review)


async def own_projects(client: Client) -> tuple[str, ...]:
    """The names of the projects that the person who asks may change. Raises KubeErrors."""
    body = {
        "apiVersion": RULES_REVIEWS.api_version,
        "kind": RULES_REVIEWS.name,
        "spec": {"namespace": NAMESPACE},
    }
    answer = decode(await client.create(RULES_REVIEWS, body), _REVIEW)
    names = {
        name
        for rule in answer.status.resource_rules
        if GPU_PROJECTS.group in rule.api_groups
        and GPU_PROJECTS.plural in rule.resources
        and "patch" in rule.verbs
        for name in rule.resource_names
    }
    return tuple(sorted(names))
