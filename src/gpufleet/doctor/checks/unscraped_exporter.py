"""Monitors of GPU exporters that bring no metrics: they match nothing, name no port, or no Prometheus reads
them.
"""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.kubectl import get_command
from gpufleet.doctor.views.monitoring import GROUP, Monitor, gpu_monitors, is_collected
from gpufleet.doctor.views.services import pods_behind
from gpufleet.doctor.views.stack import StackPart, parts_of
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.model.label_advice import nearest
from gpufleet.model.phrases import each_of


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """Each monitor that brings nothing, by the first thing that is wrong with it."""
    monitors = gpu_monitors(facts)
    bad = 0
    for monitor in monitors:
        found = _unread(facts, monitor) or (
            _by_service(facts, monitor)
            if monitor.manifest.kind == "ServiceMonitor"
            else _by_pod(facts, monitor)
        )
        if found is not None:
            bad += 1
            yield found
    if monitors and not bad:
        yield Good(f"{each_of(len(monitors), 'monitor')} of GPU exporters is read and finds its target")


def _unread(facts: Facts, monitor: Monitor) -> Failure | None:
    servers = facts.of_kind("Prometheus", group=GROUP)
    if not servers or any(is_collected(facts, one, monitor.manifest) for one in servers):
        return None
    name = "serviceMonitor" if monitor.manifest.kind == "ServiceMonitor" else "podMonitor"
    wanted = {
        key: one.text or ""
        for key, one in servers[0].root.at("spec", f"{name}Selector", "matchLabels").entries()
    }
    pairs = " ".join(f"{key}={value}" for key, value in wanted.items())
    mend = (
        Remedy(
            "give it the labels that the server selects",
            f"{get_command(monitor.manifest).replace('kubectl get', 'kubectl label', 1)} {pairs}",
        )
        if wanted
        else Remedy("let the server select it", get_command(servers[0]) + " -o yaml")
    )
    return _failure(
        monitor,
        f"{listed(one.title for one in servers)} does not select it",
        (f"it has the labels {_written(monitor.manifest.labels)}", f"{name}Selector: {_written(wanted)}"),
        mend,
    )


def _by_service(facts: Facts, monitor: Monitor) -> Failure | None:
    services = monitor.taken(facts.of_kind("Service", group=""))
    if not services:
        return _matchless(monitor, "Service")
    selecting = [one for one in services if one.root.at("spec", "selector").exists]
    if selecting and _exporter_runs(facts) and not any(pods_behind(facts, one) for one in selecting):
        mend = Remedy("mend the selector of the Service", get_command(services[0]) + " -o yaml")
        return _failure(monitor, f"{services[0].title}, which it takes, selects no pod", (), mend)
    ports = [one.text_at("name") or "" for each in services for one in each.root.at("spec", "ports").items()]
    return _without_port(monitor, services[0], ports)


def _exporter_runs(facts: Facts) -> bool:
    return any(StackPart.EXPORTER in parts_of(one.template) for one in facts.pods if not one.has_ended)


def _by_pod(facts: Facts, monitor: Monitor) -> Failure | None:
    pods = monitor.taken(facts.of_kind("Pod"))
    if not pods:
        # Without GPU nodes there is no exporter either.
        return _matchless(monitor, "Pod") if _exporter_runs(facts) else None
    ports = [
        port.text_at("name") or ""
        for each in pods
        for one in each.root.at("spec", "containers").items()
        for port in one.at("ports").items()
    ]
    return _without_port(monitor, pods[0], ports)


def _matchless(monitor: Monitor, kind: str) -> Failure:
    wanted = {name: one.text or "" for name, one in monitor.selector.at("matchLabels").entries()}
    command = f"kubectl get {kind.lower()}s -A --show-labels"
    mend = Remedy(f"write labels that the exporter's {kind} has, and its namespace", command)
    return _failure(monitor, f"it matches no {kind}", (f"selector: {_written(wanted)}",), mend)


def _without_port(monitor: Monitor, target: Manifest, ports: list[str]) -> Failure | None:
    wrong = [one for one in monitor.ports if one not in ports]
    if not wrong:
        return None
    near = nearest(wrong[0], ports) or (ports[0] if len(ports) == 1 else "")
    hint = f" ({near}?)" if near else ""
    edit = get_command(monitor.manifest).replace("kubectl get", "kubectl edit", 1)
    return _failure(
        monitor,
        f"{target.title} has no port of the name {wrong[0]}",
        (f"its ports are {listed(ports, 6) or 'without names'}",),
        Remedy(f"name a port that it has{hint}", edit),
    )


def _failure(monitor: Monitor, says: str, seen: tuple[str, ...], mend: Remedy) -> Failure:
    title = monitor.manifest.title
    return Failure(f"{title}: brings no metrics of GPUs, {says}", (title,), seen or (says,), (mend,))


def _written(labels: dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in labels.items()) or "(none)"


CHECK = Check(
    "exporter-unscraped",
    Point.WATCHING,
    Layer.START,
    "Metrics of GPUs are collected",
    "A monitor that matches nothing is no error anywhere: its dashboards are empty, and its alerts silent.",
    judge,
    ("ServiceMonitor", "PodMonitor", "Service", "Pod", "Prometheus"),
)
