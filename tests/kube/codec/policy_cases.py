"""Malformed and odd FleetPolicies, each with the API server's verdict and ours.

`test_fleet_policies` asks the codec, `tests.kube.manifests.test_fleet_policies` a real server: what the
server refuses the codec refuses too, in case it was stored before the definition was as strict.
"""

from dataclasses import dataclass
from typing import Any

IMAGE = "registry.example.com/nvidia/driver@sha256:" + "0123456789abcdef" * 4
SELECTOR = {"matchLabels": {"nvidia.com/gpu.present": "true"}}


@dataclass(frozen=True)
class Case:
    """One spec. ``refused`` is the field that the codec names, "" where it takes it."""

    what: str
    spec: Any
    refused: str = ""
    unreadable: bool = False

    def __str__(self) -> str:
        """As the test is called."""
        return self.what.replace(" ", "-")

    def object(self) -> dict[str, Any]:
        """The whole object."""
        kind = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetPolicy"}
        return {**kind, "metadata": {"name": "all-gpus"}, "spec": self.spec}


def spec(**fields: Any) -> dict[str, Any]:
    """A spec that selects nodes with GPUs."""
    return {"nodeSelector": SELECTOR, **fields}


def rollout(**fields: Any) -> dict[str, Any]:
    """A spec with an image and settings of its rollout."""
    return spec(driver={"source": "Image", "image": IMAGE}, rollout=fields)


def taint(key: str = "example.com/gpu", effect: str = "NoSchedule", **more: str) -> dict[str, str]:
    """A taint."""
    return {"key": key, "effect": effect, **more}


CASES = (
    Case("selects and says nothing", spec()),
    Case(
        "everything",
        spec(
            driver={"source": "Image", "image": IMAGE, "version": "595.91.07", "kernelModules": "Open"},
            runtime={"mode": "CDI"},
            sharingConfig="small",
            migLayout="all-1g.10gb",
            labels={"example.com/tier": "gold", "node-role.kubernetes.io/gpu": ""},
            taints=[taint(value="yes"), taint(effect="NoExecute")],
            rollout={
                "canaries": 2,
                "maxParallel": "10%",
                "maxFailed": 3,
                "soak": "1h30m",
                "windows": [
                    {"schedule": "0 22 * * 5", "duration": "8h", "timeZone": "Europe/Berlin"},
                    {"schedule": "0 3 * * *", "duration": "90m"},
                ],
                "drainTimeout": "2h",
                "checkpointTimeout": "0s",
                "changeTimeout": "20m",
                "validationTimeout": "60s",
                "placeTimeout": "30m",
                "paused": True,
            },
        ),
    ),
    Case(
        "layouts by hour and day",
        spec(
            migPeriods=[
                {
                    "schedule": "0 20 * * 1-5",
                    "duration": "10h",
                    "timeZone": "Europe/Berlin",
                    "instances": ["3g.40gb", "1g.10gb+me"],
                    "notice": "30m",
                },
                {"schedule": "0 0 * * 6", "duration": "2d"},
            ]
        ),
    ),
    Case(
        "layouts by hour beside one of the MIG manager",
        spec(migLayout="all-1g.10gb", migPeriods=[{"schedule": "0 0 * * 6", "duration": "2d"}]),
        refused="spec.migPeriods",
    ),
    Case(
        "a period with what is no profile",
        spec(migPeriods=[{"schedule": "0 0 * * 6", "duration": "2d", "instances": ["3g"]}]),
        refused="spec.migPeriods[0].instances[0]",
    ),
    Case("driver of the host", spec(driver={"source": "Host", "version": "595.91.07"})),
    Case("toolkit", spec(runtime={"mode": "Toolkit", "image": IMAGE})),
    Case("selector absent", {}, unreadable=True),
    Case("selector null", {"nodeSelector": None}, unreadable=True),
    Case("selector empty", {"nodeSelector": {}}, refused="spec.nodeSelector"),
    Case("selector of no labels", {"nodeSelector": {"matchLabels": {}}}, refused="spec.nodeSelector"),
    Case(
        "operator unknown",
        {"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}},
        refused="spec.nodeSelector.operator",
    ),
    Case(
        "In without values",
        {"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
        refused="spec.nodeSelector.matchExpressions[0].values",
    ),
    Case("driver source unknown", spec(driver={"source": "Operator"}), refused="spec.driver.source"),
    Case("driver source absent", spec(driver={}), unreadable=True),
    Case("driver without image", spec(driver={"source": "Image"}), refused="spec.driver.image"),
    Case(
        "driver by tag",
        spec(driver={"source": "Image", "image": "nvcr.io/nvidia/driver:595.91.07-ubuntu24.04"}),
        refused="spec.driver.image",
    ),
    Case(
        "digest too short",
        spec(driver={"source": "Image", "image": IMAGE[:-1]}),
        refused="spec.driver.image",
    ),
    Case(
        "host driver with image", spec(driver={"source": "Host", "image": IMAGE}), refused="spec.driver.image"
    ),
    Case(
        "host driver precompiled",
        spec(driver={"source": "Host", "build": "Precompiled"}),
        refused="spec.driver.build",
    ),
    Case(
        "version with a blank",
        spec(driver={"source": "Host", "version": "595 beta"}),
        refused="spec.driver.version",
    ),
    Case(
        "modules unknown",
        spec(driver={"source": "Host", "kernelModules": "closed"}),
        refused="spec.driver.kernelModules",
    ),
    Case("runtime mode unknown", spec(runtime={"mode": "cdi"}), refused="spec.runtime.mode"),
    Case("toolkit without image", spec(runtime={"mode": "Toolkit"}), refused="spec.runtime.image"),
    Case("CDI with image", spec(runtime={"mode": "CDI", "image": IMAGE}), refused="spec.runtime.image"),
    Case("sharing config no label value", spec(sharingConfig="a b"), refused="spec.sharingConfig"),
    Case("layout no label value", spec(migLayout="-all"), refused="spec.migLayout"),
    Case("label key of no form", spec(labels={"a b": "c"}), refused="spec.labels"),
    Case("label value of no form", spec(labels={"a": "b c"}), refused="spec.labels[a]"),
    Case("label of ours", spec(labels={"gpufleet.io/pool": "a"}), refused="spec.labels[gpufleet.io/pool]"),
    Case(
        "label of Kubernetes",
        spec(labels={"kubernetes.io/hostname": "a"}),
        refused="spec.labels[kubernetes.io/hostname]",
    ),
    Case(
        "label of discovery",
        spec(labels={"feature.node.kubernetes.io/x": "a"}),
        refused="spec.labels[feature.node.kubernetes.io/x]",
    ),
    Case(
        "label of a driver manager",
        spec(labels={"nvidia.com/gpu.deploy.driver": "false"}),
        refused="spec.labels[nvidia.com/gpu.deploy.driver]",
    ),
    Case(
        "layout as a label",
        spec(labels={"nvidia.com/mig.config": "all-disabled"}),
        refused="spec.labels[nvidia.com/mig.config]",
    ),
    Case(
        "label that it selects by",
        {"nodeSelector": {"matchLabels": {"tier": "gold"}}, "labels": {"tier": "silver"}},
        refused="spec.labels[tier]",
    ),
    Case(
        "label that an expression selects by",
        {
            "nodeSelector": {"matchExpressions": [{"key": "tier", "operator": "Exists"}]},
            "labels": {"tier": "silver"},
        },
        refused="spec.labels[tier]",
    ),
    Case("taint without effect", spec(taints=[{"key": "a"}]), unreadable=True),
    Case("taint effect unknown", spec(taints=[taint(effect="Never")]), refused="spec.taints[0].effect"),
    Case("taint of ours", spec(taints=[taint("gpufleet.io/shared")]), refused="spec.taints[0].key"),
    Case(
        "taint of Kubernetes",
        spec(taints=[taint("node.kubernetes.io/unschedulable")]),
        refused="spec.taints[0].key",
    ),
    Case("taint twice", spec(taints=[taint(value="a"), taint(value="b")]), refused="spec.taints[1].key"),
    Case("labels a list", spec(labels=["a"]), unreadable=True),
    Case("rollout that says nothing", rollout()),
    Case("rollout without a driver", spec(rollout={}), refused="spec.rollout"),
    Case(
        "rollout of a driver of the host",
        spec(driver={"source": "Host"}, rollout={"canaries": 1}),
        refused="spec.rollout",
    ),
    Case("canaries below none", rollout(canaries=-1), refused="spec.rollout.canaries"),
    Case("canaries as a text", rollout(canaries="1"), unreadable=True),
    Case("no node in parallel", rollout(maxParallel=0), refused="spec.rollout.maxParallel"),
    Case("no per cent in parallel", rollout(maxParallel="0%"), refused="spec.rollout.maxParallel"),
    Case("more than all in parallel", rollout(maxParallel="101%"), refused="spec.rollout.maxParallel"),
    Case("parallel in words", rollout(maxParallel="two"), refused="spec.rollout.maxParallel"),
    Case("none may fail", rollout(maxFailed=0)),
    Case("fewer than none may fail", rollout(maxFailed=-1), refused="spec.rollout.maxFailed"),
    Case("soak without a unit", rollout(soak="600"), refused="spec.rollout.soak"),
    Case("soak in parts of a second", rollout(soak="500ms"), refused="spec.rollout.soak"),
    Case("window without a length", rollout(windows=[{"schedule": "0 3 * * *"}]), unreadable=True),
    Case(
        "window with a length of no form",
        rollout(windows=[{"schedule": "0 3 * * *", "duration": "night"}]),
        refused="spec.rollout.windows[0].duration",
    ),
)
