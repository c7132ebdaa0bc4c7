"""Malformed and odd FleetQueues, each with the API server's verdict and ours.

The numbers are those of the list of malformed inputs. `test_fleet_queues` asks the codec,
`tests.kube.manifests.test_fleet_queues` a real server: what the server refuses the codec refuses too, in
case it was stored before the definition was as strict.
"""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Case:
    """One object. ``refused`` is the field that the codec names, "" where it reads ``result``.

    ``unreadable``: the mirror cannot decode it. ``stored``: the server takes it.
    """

    number: int
    what: str
    spec: Any
    refused: str = ""
    result: dict[str, Any] = field(default_factory=dict)
    unreadable: bool = False
    stored: bool = False
    name: str = "team-a"
    more: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """As the test is called."""
        return f"{self.number}-{self.what.replace(' ', '-')}"

    def object(self) -> dict[str, Any]:
        """The whole object."""
        spec = {} if self.spec is ABSENT else {"spec": self.spec}
        kind = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue"}
        return {**kind, "metadata": {"name": self.name}, **spec, **self.more}


ABSENT = object()


def gpus(**quota: Any) -> dict[str, Any]:
    """A spec with one quota of GPUs."""
    return {"quotas": [{"resource": "gpu", **quota}]}


def of(resource: str, nominal: Any = 1) -> dict[str, Any]:
    """A spec with one quota of another resource."""
    return {"quotas": [{"resource": resource, "nominal": nominal}]}


QUOTA = "spec.quotas[0]"
CASES = (
    Case(38, "spec absent", ABSENT, unreadable=True),
    Case(38, "spec null", None, unreadable=True),
    Case(38, "spec a list", [], unreadable=True),
    Case(38, "spec empty", {}, stored=True, result={"quotas": (), "weight_milli": 1000}),
    Case(38, "quotas a map", {"quotas": {"gpu": 8}}, unreadable=True),
    Case(38, "nominal a list", gpus(nominal=[8]), unreadable=True),
    Case(38, "nominal a fraction without quotes", gpus(nominal=7.5), unreadable=True),
    Case(38, "namespaces a text", {"namespaces": "team-a"}, unreadable=True),
    Case(39, "status of a user", {}, stored=True, result={"name": "team-a"}, more={"status": {"share": "7"}}),
    Case(40, "its own parent", {"parent": "team-a"}, refused="spec.parent"),
    Case(41, "parent absent", {"parent": "research"}, stored=True, result={"parent": "research"}),
    Case(41, "parent with a path", {"parent": "../research"}, refused="spec.parent"),
    Case(41, "parent an empty text", {"parent": ""}, refused="spec.parent"),
    Case(42, "negative nominal", gpus(nominal=-1), refused=f"{QUOTA}.nominal"),
    Case(42, "negative nominal as text", gpus(nominal="-1"), refused=f"{QUOTA}.nominal"),
    Case(42, "minus zero", gpus(nominal="-0"), refused=f"{QUOTA}.nominal"),
    Case(42, "plus one", gpus(nominal="+1"), stored=True, result={"nominal": 1000}),
    Case(42, "borrowing below 0", gpus(borrowingLimit=-1), refused=f"{QUOTA}.borrowingLimit"),
    Case(42, "lending below 0", gpus(lendingLimit="-1"), refused=f"{QUOTA}.lendingLimit"),
    Case(42, "hard limit below 0", gpus(hardLimit="-500m"), refused=f"{QUOTA}.hardLimit"),
    Case(42, "lending above nominal", gpus(nominal=8, lendingLimit=9), refused=f"{QUOTA}.lendingLimit"),
    Case(42, "lending above no nominal", gpus(lendingLimit="1"), refused=f"{QUOTA}.lendingLimit"),
    Case(
        42,
        "lending above nominal by notation",
        {"quotas": [{"resource": "memory", "nominal": "1G", "lendingLimit": "1Gi"}]},
        refused=f"{QUOTA}.lendingLimit",
    ),
    Case(42, "lending equal to nominal", gpus(nominal="8", lendingLimit=8), stored=True),
    Case(43, "weight 0", {"weight": 0}, stored=True, result={"weight_milli": 0}),
    Case(43, "weight negative", {"weight": -1}, refused="spec.weight"),
    Case(43, "weight negative as text", {"weight": "-0.5"}, refused="spec.weight"),
    Case(43, "weight 1e308", {"weight": "1e308"}, refused="spec.weight"),
    Case(43, "weight infinite", {"weight": "inf"}, refused="spec.weight"),
    Case(43, "weight of a million", {"weight": 1_000_000}, refused="spec.weight"),
    Case(43, "weight a half", {"weight": "0.5"}, stored=True, result={"weight_milli": 500}),
    Case(43, "weight in thousandths", {"weight": "250m"}, stored=True, result={"weight_milli": 250}),
    Case(43, "weight too fine", {"weight": "0.0001"}, refused="spec.weight"),
    Case(5, "infinite by exponent", gpus(nominal="1e999"), refused=f"{QUOTA}.nominal"),
    Case(6, "not a number", gpus(nominal="NaN"), refused=f"{QUOTA}.nominal"),
    Case(7, "underscores", gpus(nominal="1_000"), refused=f"{QUOTA}.nominal"),
    Case(7, "thousands separator", gpus(nominal="1,000"), refused=f"{QUOTA}.nominal"),
    Case(8, "full width digits", gpus(nominal="８"), refused=f"{QUOTA}.nominal"),  # noqa: RUF001  (that is the point)
    Case(8, "leading space", gpus(nominal=" 8"), refused=f"{QUOTA}.nominal"),
    Case(8, "line after it", gpus(nominal="8\n"), refused=f"{QUOTA}.nominal"),
    Case(17, "half a GPU", gpus(nominal="7.5"), stored=True, result={"nominal": 7500}),
    Case(21, "gibibytes", of("memory", "16Gi"), stored=True, result={"nominal": 16 * 2**30}),
    Case(21, "gigabytes", of("memory", "16G"), stored=True, result={"nominal": 16 * 10**9}),
    Case(21, "small g", of("memory", "16g"), refused=f"{QUOTA}.nominal"),
    Case(21, "space before the suffix", of("memory", "16 Gi"), refused=f"{QUOTA}.nominal"),
    Case(22, "exa", of("memory", "1E"), refused=f"{QUOTA}.nominal"),
    Case(22, "exponent", of("memory", "1e3"), stored=True, result={"nominal": 1000}),
    Case(24, "more than all", gpus(nominal="1e30"), refused=f"{QUOTA}.nominal"),
    Case(24, "largest integer", of("memory", "9223372036854775807"), refused=f"{QUOTA}.nominal"),
    Case(25, "less than a thousandth", gpus(nominal="0.0000000001"), stored=True, result={"nominal": 1}),
    Case(21, "gpu memory", of("gpu-memory", "80Gi"), stored=True, result={"nominal": 81920}),
    Case(21, "gpu memory without a unit", of("gpu-memory", 80), refused=f"{QUOTA}.nominal"),
    Case(21, "gpu memory of 0", of("gpu-memory", 0), stored=True, result={"nominal": 0}),
    Case(24, "more GPUs than can be counted", gpus(nominal="64Pi"), refused=f"{QUOTA}.nominal"),
    Case(24, "more cores than can be counted", of("cpu", "72057594037928"), refused=f"{QUOTA}.nominal"),
    Case(24, "as many cores as can be counted", of("cpu", "72057594037927936m"), stored=True),
    Case(24, "more cost than can be counted", of("cost", "1P"), refused=f"{QUOTA}.nominal"),
    Case(24, "more of a model than can be counted", of("gpu/H100-80GB", "1P"), refused=f"{QUOTA}.nominal"),
    Case(24, "as much memory as can be counted", of("memory", "64Pi"), stored=True),
    Case(32, "misspelt resource", of("gpu-memroy", "1Gi"), refused=f"{QUOTA}.resource"),
    Case(32, "a vendor's word", of("nvidia.com/gpu", 8), refused=f"{QUOTA}.resource"),
    Case(32, "a resource of a domain", of("example.com/fpga", 8), stored=True, result={"nominal": 8}),
    Case(32, "a resource of Kubernetes' domain", of("x.kubernetes.io/a", 8), refused=f"{QUOTA}.resource"),
    Case(32, "a resource of a quota", of("requests.example.com/a", 8), refused=f"{QUOTA}.resource"),
    Case(32, "a model that is no name", of("gpu/H100 ", 8), refused=f"{QUOTA}.resource"),
    Case(32, "huge pages", of("hugepages-2Mi", "1Gi"), stored=True),
    Case(32, "empty resource", of("", 8), refused=f"{QUOTA}.resource"),
    Case(32, "unknown state", {"state": "Closed"}, refused="spec.state"),
    Case(32, "unknown ordering", {"ordering": "FIFO"}, refused="spec.ordering"),
    Case(32, "unknown prey", {"preemption": {"reclaim": "Some"}}, refused="spec.preemption.reclaim"),
    Case(
        32,
        "unknown order of victims",
        {"preemption": {"victimOrder": "Newest"}},
        refused="spec.preemption.victimOrder",
    ),
    Case(
        32,
        "a threshold for nothing",
        {"preemption": {"borrowingPriorityMax": 5}},
        refused="spec.preemption.borrowingPriorityMax",
    ),
    Case(33, "a resource twice", {"quotas": [{"resource": "gpu"}] * 2}, refused="spec.quotas[1].resource"),
    Case(
        33,
        "a model twice by two names",
        {"quotas": [{"resource": "gpu/H100-80GB"}, {"resource": "gpu/NVIDIA-H100-80GB-HBM3"}]},
        stored=True,
        refused="spec.quotas[1].resource",
    ),
    Case(37, "a duration without a unit", {"halfLife": "7"}, refused="spec.halfLife"),
    Case(37, "a negative duration", {"runTimeMax": "-1h"}, refused="spec.runTimeMax"),
    Case(37, "a duration", {"runTimeMax": "1h30m"}, stored=True, result={"run_time_max_us": 5400 * 10**6}),
    Case(37, "a duration of 10,000 years", {"runTimeMax": "3650000d"}, refused="spec.runTimeMax"),
    Case(37, "a hundred years", {"halfLife": "36500d"}, stored=True),
    Case(37, "a hundred years and a millisecond", {"halfLife": "36500d1ms"}, refused="spec.halfLife"),
    Case(37, "a hundred years in parts", {"reserveAfter": "36499d24h1s"}, refused="spec.reserveAfter"),
    Case(37, "never", {"reserveAfter": "Never"}, stored=True, result={"reserve_after_us": None}),
    Case(
        37,
        "a grace of 10,000 years",
        {"preemption": {"preemptAfter": "3650000d"}},
        refused="spec.preemption.preemptAfter",
    ),
    Case(
        16,
        "a template for a namespace",
        {"namespaces": ["{{ . }}"]},
        refused="spec.namespaces[0]",
    ),
    Case(
        47,
        "selector of 10000 terms",
        {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}] * 10_000}},
        refused="spec.namespaceSelector.matchExpressions",
    ),
    Case(
        47,
        "selector that asks for nothing known",
        {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}},
        refused="spec.namespaceSelector.matchExpressions[0].operator",
    ),
    Case(
        47,
        "selector with a key that is none",
        {"namespaceSelector": {"matchLabels": {"a b": "c"}}},
        refused="spec.namespaceSelector.matchLabels.key",
    ),
    Case(
        47,
        "selector with a value that is none",
        {"namespaceSelector": {"matchLabels": {"a": "-"}}},
        refused="spec.namespaceSelector.matchLabels.values",
    ),
    Case(
        47,
        "selector that lists no values",
        {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": []}]}},
        refused="spec.namespaceSelector.matchExpressions[0].values",
    ),
    Case(
        47,
        "selector that asks whether a label is a value",
        {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}},
        refused="spec.namespaceSelector.matchExpressions[0].values",
    ),
    Case(
        47,
        "a price of a model that is none",
        {"prices": [{"model": "T4\n", "price": 1}]},
        refused="spec.prices[0].model",
    ),
    Case(
        33,
        "a model's price twice",
        {"prices": [{"model": "T4", "price": 1}] * 2},
        refused="spec.prices[1].model",
    ),
    Case(
        42,
        "prices below the root",
        {"parent": "research", "prices": [{"model": "T4", "price": 1}]},
        refused="spec.prices",
    ),
    Case(37, "price 0.1.2", {"prices": [{"model": "T4", "price": "0.1.2"}]}, refused="spec.prices[0].price"),
    Case(38, "provisioning a text", {"provisioning": "x"}, unreadable=True),
    Case(38, "provisioning without a class", {"provisioning": {}}, unreadable=True),
    Case(
        47,
        "a class that is no name",
        {"provisioning": {"provisioningClassName": "Check Capacity"}},
        refused="spec.provisioning.provisioningClassName",
    ),
    Case(
        42,
        "retries below 0",
        {"provisioning": {"provisioningClassName": "a.b", "retryStrategy": {"backoffLimitCount": -1}}},
        refused="spec.provisioning.retryStrategy.backoffLimitCount",
    ),
    Case(
        42,
        "a pause of 0 s",
        {"provisioning": {"provisioningClassName": "a.b", "retryStrategy": {"backoffBaseSeconds": 0}}},
        refused="spec.provisioning.retryStrategy.backoffBaseSeconds",
    ),
    Case(41, "provisioning by a class", {"provisioning": {"provisioningClassName": "a.b"}}, stored=True),
    Case(42, "price negative", {"prices": [{"model": "T4", "price": -1}]}, refused="spec.prices[0].price"),
)
