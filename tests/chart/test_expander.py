"""What the chart installs of the expander: nothing by default, one right to write, and its authority."""

import base64

from cryptography import x509

from tests.chart.rendering import FULL_VALUES, NAMESPACE, Object, one, rendered

EXPANDER = {"expander": {"enabled": True}}


def of_expander(objects: list[Object]) -> list[Object]:
    return [its for its in objects if str(its["metadata"]["name"]).startswith("gpufleet-expander")]


def test_without_the_value_nothing_of_it_is_installed() -> None:
    assert of_expander(rendered()) == []


def test_it_reads_and_writes_the_status_of_pods_alone() -> None:
    objects = rendered(EXPANDER)
    bindings = [its for its in of_expander(objects) if its["kind"].endswith("Binding")]
    assert [its["roleRef"]["name"] for its in bindings] == ["gpufleet-explain", "gpufleet-expander-decisions"]
    rules = one(objects, "ClusterRole", "gpufleet-expander-decisions")["rules"]
    assert rules == [{"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]}]


def test_the_autoscaler_finds_the_authority_in_its_own_namespace() -> None:
    objects = rendered(EXPANDER)
    authority = one(objects, "ConfigMap", "gpufleet-expander-authority")
    assert authority["metadata"]["namespace"] == "kube-system"
    signer = x509.load_pem_x509_certificate(authority["data"]["ca.crt"].encode())
    secret = one(objects, "Secret", "gpufleet-expander")["data"]
    shown = x509.load_pem_x509_certificate(base64.b64decode(secret["tls.crt"]))
    shown.verify_directly_issued_by(signer)
    names = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert f"gpufleet-expander.{NAMESPACE}.svc" in names.get_values_for_type(x509.DNSName)


def test_every_value_reaches_it() -> None:
    objects = rendered(FULL_VALUES)
    pod = one(objects, "Deployment", "gpufleet-expander")["spec"]["template"]["spec"]
    volumes = {its["name"]: its for its in pod["volumes"]}
    assert {"--catalogue=/etc/gpufleet/catalogue/types.csv", "--log-level=debug", "--context=one"} <= set(
        pod["containers"][0]["args"]
    )
    assert volumes["certificate"]["secret"]["secretName"] == "expander"
    assert volumes["catalogue"]["configMap"]["name"] == "prices"
    # Whose certificate it is, the user's own authority says.
    assert not [its for its in of_expander(objects) if its["kind"] in {"Secret", "ConfigMap"}]
