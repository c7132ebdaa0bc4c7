"""What the chart installs of the page: nothing by default, and with it no more rights than it needs."""

from tests.chart.rendering import FULL_VALUES, NAMESPACE, Object, one, rendered

WEB = {"web": {"enabled": True}}


def of_web(objects: list[Object]) -> list[Object]:
    return [one_ for one_ in objects if str(one_["metadata"]["name"]).startswith("gpufleet-web")]


def test_without_the_value_nothing_of_the_page_is_installed() -> None:
    assert of_web(rendered()) == []


def test_its_own_rights_are_to_ask_about_people_and_to_list_projects() -> None:
    objects = rendered(WEB)
    role = one(objects, "ClusterRole", "gpufleet-web")
    assert {(rule["resources"][0], *rule["verbs"]) for rule in role["rules"]} == {
        ("tokenreviews", "create"),
        ("subjectaccessreviews", "create"),
        ("gpuprojects", "list"),
    }
    agents = one(objects, "Role", "gpufleet-web")
    assert agents["metadata"]["namespace"] == NAMESPACE
    assert agents["rules"] == [{"apiGroups": [""], "resources": ["pods/proxy"], "verbs": ["get"]}]


def test_it_reads_what_explain_and_the_doctor_read() -> None:
    bound = {
        binding["roleRef"]["name"]
        for binding in of_web(rendered(WEB))
        if binding["kind"] == "ClusterRoleBinding"
    }
    assert bound == {"gpufleet-web", "gpufleet-explain", "gpufleet-doctor"}


def test_people_log_in_with_tokens_of_the_cluster() -> None:
    deployment = one(rendered(WEB), "Deployment", "gpufleet-web")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["args"][:2] == ["web", "--login=cluster"]
    assert not [argument for argument in container["args"] if argument.startswith("--certificate")]


def test_every_value_of_the_page_reaches_it() -> None:
    objects = rendered(FULL_VALUES)
    pod = one(objects, "Deployment", "gpufleet-web")["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert {
        "--host=gpus.example.com",
        "--prometheus=https://prometheus.monitoring:9090",
        "--prometheus-cluster=west-1",
        "--certificate=/etc/gpufleet/certificate/tls.crt",
        "--prometheus-token-file=/etc/token",
    } <= set(container["args"])
    assert container["livenessProbe"]["httpGet"]["scheme"] == "HTTPS"
    policy = one(objects, "NetworkPolicy", "gpufleet-web")["spec"]
    assert policy["ingress"][0]["from"] == [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}
    ]
    assert {port["port"] for rule in policy["egress"] for port in rule.get("ports", ())} == {6443, 53}


def test_a_proxy_beside_the_page_is_trusted_alone_and_the_service_leads_to_it() -> None:
    objects = rendered(FULL_VALUES)
    pod = one(objects, "Deployment", "gpufleet-web")["spec"]["template"]["spec"]
    page, proxy = pod["containers"]
    assert {
        "--trusted-proxy=127.0.0.1",
        "--trusted-proxy=fd00::/8",
        "--proxy-user-field=X-Forwarded-Email",
        "--proxy-groups-field=X-Auth-Groups",
        "--proxy-user-prefix=oidc:",
        "--proxy-groups-prefix=team:",
    } <= set(page["args"])
    assert proxy["name"] == "proxy"
    assert "proxy" in {volume["name"] for volume in pod["volumes"]}
    (port,) = one(objects, "Service", "gpufleet-web")["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (443, 4180)
    policy = one(objects, "NetworkPolicy", "gpufleet-web")["spec"]
    assert policy["ingress"][0]["ports"] == [{"port": 4180, "protocol": "TCP"}]


def test_without_a_proxy_no_field_is_trusted_and_the_service_leads_to_the_page() -> None:
    objects = rendered(WEB)
    pod = one(objects, "Deployment", "gpufleet-web")["spec"]["template"]["spec"]
    assert len(pod["containers"]) == 1
    assert not [argument for argument in pod["containers"][0]["args"] if "proxy" in argument]
    (port,) = one(objects, "Service", "gpufleet-web")["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (80, "web")
