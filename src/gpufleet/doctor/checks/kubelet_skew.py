"""GPU nodes with a kubelet that is newer than the API server, or has fallen behind it."""

import re
from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Grade, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.nodes import NodeView
from gpufleet.model.phrases import each_of

_VERSION = re.compile(r"v(\d+)\.(\d+)\.")
_BEHIND_FINE = 1
"""During an upgrade nodes follow the API server, so one minor version behind is usual."""

_BEHIND_MAX = 3
"""How many minor versions a kubelet may be behind (https://kubernetes.io/releases/version-skew-policy/)."""


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """The nodes by how many minors they are away."""
    server = _minor(facts.version)
    kubelets = {one.name: _minor(_kubelet(one)) for one in facts.gpu_nodes if not one.is_simulated}
    known = [one for one in facts.gpu_nodes if kubelets.get(one.name) is not None]
    if server is None or not known:
        return
    behind = {one.name: server - (kubelets[one.name] or 0) for one in known}
    off = [one for one in known if behind[one.name] > _BEHIND_FINE or behind[one.name] < 0]
    if not off:
        yield Good(f"on {each_of(len(known), 'GPU node')} the kubelet is at most one minor behind the server")
        return
    # A kubelet that is newer than its server is worse than any that is behind.
    worst = max(off, key=lambda one: (behind[one.name] < 0, behind[one.name]))
    distance = behind[worst.name]
    if distance < 0:
        says = f"{-distance} minor newer than the server, which is not supported"
    elif distance > _BEHIND_MAX:
        says = f"{distance} minors behind the server; more than {_BEHIND_MAX} are not supported"
    else:
        says = f"{distance} minors behind the server: an upgrade was left half way"
    yield Failure(
        f"{listed(one.name for one in off)}: the kubelet is {says}",
        tuple(one.title for one in off),
        (*(f"{one.name}: kubelet {_kubelet(one)}" for one in off), f"server {facts.version}"),
        (
            Remedy(
                "drain and upgrade them one after the other, with drivers and plugin as the release asks",
                f"kubectl drain {worst.name} --ignore-daemonsets --delete-emptydir-data",
            ),
        ),
    )


def _kubelet(node: NodeView) -> str:
    return node.seen.kubelet_version


def _minor(version: str) -> int | None:
    found = _VERSION.match(version)
    return int(found[2]) if found else None


CHECK = Check(
    "kubelet-skew",
    Point.UPGRADES,
    Layer.PRACTICE,
    "Kubelets of GPU nodes keep up with the server",
    "GPU nodes are the last to be drained, so they fall behind, until the next upgrade is refused.",
    judge,
    ("Node",),
    Grade.RISK,
)
