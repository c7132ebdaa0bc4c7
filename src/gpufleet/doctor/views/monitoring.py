"""Monitoring: Prometheus servers, what they are told to scrape, and which of that is about GPUs."""

import re
from dataclasses import dataclass

from gpufleet.doctor.facts import Facts
from gpufleet.doctor.views.programs import Program, pods_of
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.selectors import accepts
from gpufleet.lint.source.fields import Field

GROUP = "monitoring.coreos.com"
_ABOUT_GPUS = re.compile(r"dcgm|gpu|nvidia|amdgpu|xpumanager|device-metrics-exporter", re.IGNORECASE)


def scrapers(facts: Facts) -> tuple[str, ...]:
    """The titles of whatever collects metrics."""
    told = [one.title for one in facts.of_kind("Prometheus", group=GROUP)]
    return tuple(dict.fromkeys([*told, *(one.title for one in pods_of(facts, Program.PROMETHEUS))]))


@dataclass(frozen=True)
class Monitor:
    """A ServiceMonitor or PodMonitor."""

    manifest: Manifest

    @property
    def selector(self) -> Field:
        """Which Services, or pods, it takes."""
        return self.manifest.root.at("spec", "selector")

    @property
    def ports(self) -> tuple[str, ...]:
        """The names of ports that it scrapes."""
        name = "endpoints" if self.manifest.kind == "ServiceMonitor" else "podMetricsEndpoints"
        fields = self.manifest.root.at("spec", name).items()
        return tuple(text for one in fields if (text := one.text_at("port")))

    @property
    def is_about_gpus(self) -> bool:
        """Whether it is for an exporter of GPUs, by its name or the labels that it selects."""
        values = [one.text or "" for _, one in self.selector.at("matchLabels").entries()]
        return any(map(_ABOUT_GPUS.search, [self.manifest.name, *values]))

    def selects_namespace(self, namespace: str) -> bool:
        """Whether it takes what is in a namespace."""
        places = self.manifest.root.at("spec", "namespaceSelector")
        if places.at("any").is_true:
            return True
        names = {one.text for one in places.at("matchNames").items()}
        return namespace in names if names else namespace == self.manifest.namespace

    def taken(self, objects: tuple[Manifest, ...]) -> tuple[Manifest, ...]:
        """Which of these Services or pods the monitor selects."""
        return tuple(
            one
            for one in objects
            if accepts(self.selector, one.labels) and self.selects_namespace(one.namespace)
        )


def gpu_monitors(facts: Facts) -> tuple[Monitor, ...]:
    """The monitors of exporters of GPUs."""
    found = (Monitor(one) for one in facts.of_kind("ServiceMonitor", "PodMonitor", group=GROUP))
    return tuple(one for one in found if one.is_about_gpus)


def is_collected(facts: Facts, prometheus: Manifest, monitor: Manifest) -> bool:
    """Whether a Prometheus takes a monitor: by its labels, and by those of its namespace."""
    name = "serviceMonitor" if monitor.kind == "ServiceMonitor" else "podMonitor"
    selector = prometheus.root.at("spec", f"{name}Selector")
    places = prometheus.root.at("spec", f"{name}NamespaceSelector")
    # One that is absent selects nothing, and for namespaces the server's own.
    if not selector.exists or not accepts(selector, monitor.labels):
        return False
    if not places.exists:
        return prometheus.namespace == monitor.namespace
    namespace = facts.find("Namespace", "", monitor.namespace)
    return accepts(places, namespace.labels) if namespace is not None else True
