"""The skeleton of a case under construction, on which each theme hangs what it is about.

A node, a pod that runs, a pod that is asked about: each plain and roomy, so that alone none of them
rules anything out.
"""

from tests.differential.cases import CASE_LABEL, Manifest, name_of
from tests.differential.draw import Draw

ASKS = "asks"
"""The scheduler that pods of a case name."""

NAMESPACES: dict[str, dict[str, str]] = {
    "red": {"team": "a", "stage": "production"},
    "blue": {"team": "b", "stage": "production"},
    "green": {"team": "a"},
    "plain": {},
}
"""The namespaces of all cases, with their labels."""

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
APPS = ("web", "cache", "train")
TIERS = ("front", "back")
REVISIONS = ("r1", "r2")


class Builder:
    """The parts of a case."""

    def __init__(self, token: str, draw: Draw) -> None:
        self.token = token
        self.draw = draw
        self.others: list[Manifest] = []
        self.nodes = [self._node(number) for number in range(draw.randint(2, 4))]
        self.running = [self._running(number) for number in range(draw.randint(0, 3))]
        self.asked = [self._asked(number) for number in range(draw.one(1, 1, 2))]

    @property
    def objects(self) -> tuple[Manifest, ...]:
        """Everything that is there before the asked pods."""
        return (*self.others, *self.nodes, *self.running)

    @property
    def topology_keys(self) -> tuple[str, ...]:
        """Node labels of which no other case has any."""
        return (f"{self.token}/zone", f"{self.token}/rack", f"{self.token}/host")

    def zone(self) -> str:
        """One of the zones of this case."""
        return f"{self.token}-{self.draw.one('a', 'b', 'c')}"

    def one_node(self) -> str:
        """The name of one of its nodes."""
        return name_of(self.draw.choice(self.nodes))

    def _node(self, number: int) -> Manifest:
        name = f"{self.token}-n{number}"
        labels = {CASE_LABEL: self.token, HOSTNAME: name, f"{self.token}/host": name}
        if self.draw.chance(0.9):
            zone = self.zone()
            labels |= {ZONE: zone, f"{self.token}/zone": zone}
        if self.draw.chance(0.7):
            labels[f"{self.token}/rack"] = self.draw.one("1", "2", "3")
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {},
            "status": {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"}},
        }

    def _pod(self, name: str) -> Manifest:
        draw = self.draw
        labels = {CASE_LABEL: self.token}
        for key, values in (("app", APPS), ("tier", TIERS), ("revision", REVISIONS)):
            if draw.chance(0.8):
                labels[key] = draw.one(*values)
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": draw.one(*NAMESPACES), "labels": labels},
            "spec": {
                "schedulerName": ASKS,
                "containers": [{"name": "main", "image": "none"}],
            },
        }

    def _running(self, number: int) -> Manifest:
        pod = self._pod(f"{self.token}-r{number}")
        pod["spec"]["nodeName"] = self.one_node()
        return pod

    def _asked(self, number: int) -> Manifest:
        pod = self._pod(f"{self.token}-a{number}")
        pod["spec"]["nodeSelector"] = {CASE_LABEL: self.token}
        if self.draw.chance(0.85):
            # Says no more, but kube-scheduler then looks at these nodes only, which is much faster.
            pod["spec"]["affinity"] = {"nodeAffinity": self.only_here()}
        return pod

    def only_here(self) -> Manifest:
        """Affinity to the nodes of this case by their names."""
        fields = [
            {"key": "metadata.name", "operator": "In", "values": [name_of(node)]} for node in self.nodes
        ]
        terms = [{"matchFields": [field]} for field in fields]
        return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}

    def one_more_running(self) -> Manifest:
        """A further pod on one of the nodes."""
        pod = self._running(len(self.running))
        self.running.append(pod)
        return pod
