"""Both schedulers asked about the same cases on one server, and where they say different things."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpufleet.kube.client import Client
from gpufleet.localkube.cluster import LocalCluster
from tests.differential import ours, server, theirs
from tests.differential.cases import Case, Manifest, as_yaml, path_of
from tests.differential.ours import Judgement
from tests.differential.theirs import Answer


@dataclass(frozen=True)
class Question:
    """One asked pod of a case and both answers."""

    case: Case
    pod: Manifest
    ours: Judgement
    theirs: Answer

    @property
    def agreed(self) -> bool:
        """True if both leave the same nodes."""
        return self.ours.feasible == self.theirs.feasible

    @property
    def alone(self) -> Case:
        """The case with this pod only."""
        return Case(self.case.token, self.case.objects, (self.pod,), self.case.themes, self.case.origin)

    def __str__(self) -> str:
        """Everything that is needed to see it again."""
        against = [
            f"  {node}: {', '.join(reasons) or 'fits'}" for node, reasons in sorted(self.ours.reasons.items())
        ]
        return "\n".join(
            (
                f"{self.case.origin} ({', '.join(self.case.themes)}), pod {path_of(self.pod)}:",
                f"gpufleet leaves {listed(self.ours.feasible)}; {self.ours.held or 'node by node:'}",
                *against,
                f"kube-scheduler leaves {listed(self.theirs.feasible)} and says of the others:",
                f"  {self.theirs.said}",
                "---",
                as_yaml(self.alone),
            )
        )


def listed(nodes: Iterable[str]) -> str:
    """Names of nodes for people."""
    return ", ".join(sorted(nodes)) or "no node"


async def furnish(client: Client, cases: Sequence[Case]) -> None:
    """Put everything there: what all cases share, what each has, and the asked pods."""
    await server.create(client, server.furniture())
    await server.create(client, [one for case in cases for one in case.objects])
    await server.create(client, [one for case in cases for one in case.asked])
    await server.settle(client, cases)


async def compare(cluster: LocalCluster, client: Client, cases: Sequence[Case]) -> list[Question]:
    """Ask both about every asked pod of cases that are there."""
    judged = ours.judgements(await ours.read(client), cases)
    answers = await theirs.feasible_nodes(cluster, client, cases)
    return questions(cases, judged, answers)


def questions(
    cases: Iterable[Case], judged: Mapping[str, Judgement], answers: Mapping[str, Answer]
) -> list[Question]:
    """The answers of both put together."""
    return [
        Question(case, pod, judged[path_of(pod)], answers[path_of(pod)])
        for case in cases
        for pod in case.asked
    ]
