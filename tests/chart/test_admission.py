"""What the chart makes of the policies that judge: namespaces, defaults, and images."""

from typing import Any

from tests.chart.rendering import NAMESPACE, one, rendered

POLICY, BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"


def names(objects: list[dict[str, Any]], kind: str) -> set[str]:
    return {its["metadata"]["name"] for its in objects if its["kind"] == kind}


def exempt(policy: dict[str, Any]) -> list[str]:
    (found,) = policy["spec"]["matchConstraints"]["namespaceSelector"]["matchExpressions"]
    values: list[str] = found["values"]
    return values


def test_without_a_label_lint_warns_and_nothing_is_refused() -> None:
    objects = rendered()
    for policy in ("gpufleet-lint-errors", "gpufleet-lint-warnings"):
        assert one(objects, BINDING, f"{policy}-default")["spec"]["validationActions"] == ["Warn", "Audit"]
    assert "gpufleet-images-default" not in names(objects, BINDING)


def test_the_default_may_be_an_audit_or_nothing() -> None:
    binding = "gpufleet-lint-errors-default"
    audit = rendered({"admission.policies.default": "audit"})
    assert one(audit, BINDING, binding)["spec"]["validationActions"] == ["Audit"]
    assert binding not in names(rendered({"admission.policies.default": "off"}), BINDING)


def test_policies_can_be_left_out() -> None:
    objects = rendered({"admission.policies.enabled": False, "admission.images.enabled": False})
    assert not {name for name in names(objects, POLICY) if "lint" in name or "images" in name}


def test_the_namespace_of_the_release_is_exempt() -> None:
    values = {"admission.exemptNamespaces": ["kube-system", "gpu-operator"]}
    policy = one(rendered(values, namespace="fleet"), POLICY, "gpufleet-lint-errors")
    assert exempt(policy) == ["kube-system", "gpu-operator", "fleet"]


def test_registries_and_digests_are_those_of_the_values() -> None:
    values = {"admission.images.registries": ["registry.example.com/team"], "admission.images.digests": False}
    policy = one(rendered(values), POLICY, "gpufleet-images")
    found = {its["name"]: its["expression"] for its in policy["spec"]["variables"]}
    assert found["allowed"] == '["registry.example.com/team"]'
    assert found["digests"] == "false"


def test_the_webhook_is_scraped_by_the_certificates_of_its_own_making() -> None:
    objects = rendered({"admission.webhook.enabled": True, "serviceMonitor.enabled": True})
    (endpoint,) = one(objects, "ServiceMonitor", "gpufleet-admission")["spec"]["endpoints"]
    authority = {"name": "gpufleet-admission", "key": "ca.crt", "optional": True}
    assert endpoint["tlsConfig"] == {
        "ca": {"secret": authority},
        "serverName": f"gpufleet-admission.{NAMESPACE}.svc",
    }
    ports = {port["name"] for port in one(objects, "Service", "gpufleet-admission")["spec"]["ports"]}
    assert endpoint["port"] in ports
    assert "ServiceMonitor" not in {its["kind"] for its in rendered({"admission.webhook.enabled": True})}


def test_the_webhook_judges_images_where_the_values_say_so() -> None:
    kind, name = "ValidatingWebhookConfiguration", "gpufleet-admission"
    on = one(rendered({"admission.webhook.enabled": True}), kind, name)
    images = [its for its in on["webhooks"] if its["name"].startswith("images-")]
    assert {its["clientConfig"]["service"]["path"] for its in images} == {
        "/images/audit",
        "/images/warn",
        "/images/deny",
    }
    assert {its["failurePolicy"] for its in on["webhooks"]} == {"Ignore"}
    values = {"admission.webhook.enabled": True, "admission.images.enabled": False}
    off = one(rendered(values), kind, name)
    assert not [its for its in off["webhooks"] if its["name"].startswith("images-")]
