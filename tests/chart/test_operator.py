"""What the chart installs of the operator: nothing by default, and with it no more rights than it needs."""

from tests.chart.rendering import FULL_VALUES, NAMESPACE, Object, one, rendered

OPERATOR = {"operator": {"enabled": True}}


def of_operator(objects: list[Object]) -> list[Object]:
    return [found for found in objects if found["metadata"]["name"] == "gpufleet-operator"]


def test_without_the_value_nothing_of_the_operator_is_installed() -> None:
    assert of_operator(rendered()) == []


def test_it_has_the_rights_of_a_rollout_and_keeps_its_lease() -> None:
    objects = rendered(OPERATOR)
    rules = one(objects, "ClusterRole", "gpufleet-operator")["rules"]
    given = {
        resource: set(rule["verbs"]) - {"get", "list", "watch"}
        for rule in rules
        for resource in rule["resources"]
    }
    assert given == {
        "nodes": {"patch"},
        "fleetpolicies": set(),
        "nodedevices": set(),
        "fleetpolicies/status": {"patch"},
        "pods": {"patch"},
        "pods/eviction": {"create"},
        "resourceclaims": set(),
        "poddisruptionbudgets": set(),
        "events": {"create"},
    }
    lease = one(objects, "Role", "gpufleet-operator")
    assert lease["metadata"]["namespace"] == NAMESPACE
    assert lease["rules"][1]["resourceNames"] == ["gpufleet-operator"]
    own = {resource: set(rule["verbs"]) for rule in lease["rules"][2:] for resource in rule["resources"]}
    assert own == {"daemonsets": {"get", "create", "patch"}, "pods": {"create", "delete"}}


def test_it_may_look_at_what_the_plan_of_a_drain_is_made_from() -> None:
    binding = one(rendered(OPERATOR), "ClusterRoleBinding", "gpufleet-operator-explain")
    assert binding["roleRef"]["name"] == "gpufleet-explain"
    assert [subject["name"] for subject in binding["subjects"]] == ["gpufleet-operator"]


def test_its_metrics_are_scraped_where_monitors_are_asked_for() -> None:
    assert not [one for one in rendered(OPERATOR) if one["kind"] == "ServiceMonitor"]
    monitored = rendered({**OPERATOR, "serviceMonitor.enabled": True})
    (endpoint,) = one(monitored, "ServiceMonitor", "gpufleet-operator")["spec"]["endpoints"]
    (port,) = one(monitored, "Service", "gpufleet-operator-metrics")["spec"]["ports"]
    assert (endpoint["port"], endpoint["path"]) == (port["name"], "/metrics")


def test_it_touches_no_workload_unless_idle_work_is_to_be_parked() -> None:
    def of_parking(objects: list[Object]) -> list[str]:
        return [one["kind"] for one in objects if one["metadata"]["name"].startswith("gpufleet-parking")]

    assert of_parking(rendered(OPERATOR)) == []
    parking = {"operator": {"enabled": True, "parking": {"prometheusUrl": "http://prometheus:9090"}}}
    assert sorted(of_parking(rendered(parking))) == [
        "ClusterRole",
        "ClusterRoleBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ]


def test_it_reads_no_owners_of_replicas_unless_services_are_to_be_told_of() -> None:
    def of_services(objects: list[Object]) -> list[str]:
        return [one["kind"] for one in objects if one["metadata"]["name"] == "gpufleet-services"]

    assert of_services(rendered(OPERATOR)) == []
    services = rendered({"operator": {"enabled": True, "services": {"enabled": True}}})
    assert sorted(of_services(services)) == ["ClusterRole", "ClusterRoleBinding"]
    deployment = one(services, "Deployment", "gpufleet-operator")
    assert "--services" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]


def test_it_makes_no_namespace_unless_projects_are_to_be_kept() -> None:
    def of_projects(objects: list[Object]) -> list[str]:
        return [one["kind"] for one in objects if one["metadata"]["name"] == "gpufleet-projects"]

    assert of_projects(rendered(OPERATOR)) == []
    projects = rendered({"operator": {"enabled": True, "projects": {"enabled": True}}})
    assert sorted(of_projects(projects)) == ["ClusterRole", "ClusterRoleBinding"]
    guards = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    assert [one(projects, kind, "gpufleet-projects-guard")["kind"] for kind in guards] == list(guards)
    rules = one(projects, "ClusterRole", "gpufleet-projects")["rules"]
    assert all("delete" not in rule["verbs"] for rule in rules)
    assert all("escalate" not in rule["verbs"] for rule in rules)
    (binds,) = (rule for rule in rules if "bind" in rule["verbs"])
    roles = ["gpufleet-project-owner", "gpufleet-project-member", "gpufleet-project-viewer"]
    assert binds["resourceNames"] == roles


def test_every_value_of_the_operator_reaches_it() -> None:
    objects = rendered(FULL_VALUES)
    deployment = one(objects, "Deployment", "gpufleet-operator")["spec"]
    pod = deployment["template"]["spec"]
    assert deployment["replicas"] == 3
    assert pod["priorityClassName"] == "platform"
    args = pod["containers"][0]["args"]
    assert args[0] == "operator"
    assert {"--identity=one", "--log-level=debug", "--projects"} <= set(args)
    assert {"--prometheus=http://prometheus.monitoring:9090", "--prometheus-cluster=west-1"} <= set(args)
    assert "--scheduler-name=fleet-scheduler" in args
    assert pod["nodeSelector"]["example.com/pool"] == "system"
    assert one(objects, "NetworkPolicy", "gpufleet-operator")["spec"]["policyTypes"] == ["Ingress", "Egress"]
