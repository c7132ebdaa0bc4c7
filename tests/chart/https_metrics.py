"""Metrics of an installed chart over HTTPS: the Secret with the certificate, and clients that check it."""

import base64
import json
import socket
import ssl
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gpufleet.localkube.access.api import Object
from gpufleet.localkube.access.certificates import Authority, Identity
from tests.chart.rendering import NAMESPACE

CERTIFICATE_IN = "metrics-certificate"
"""The name of the Secret."""
PORTS = {"scheduler": 9401, "agent": 9400}
AUTHORITY = Authority.new("authority of the metrics")
WAIT_S = 10.0
SUCCEEDED = "sum by (job) (sum_over_time(up[1h]))"
"""How many scrapes of each job succeeded, for Prometheus."""

Addresses = Mapping[str, Sequence[str]]
"""The addresses of the pods of each component."""


def certificate() -> Identity:
    """A new certificate for the Services of both components."""
    return AUTHORITY.server([service(name) for name in PORTS], [])


def service(component: str) -> str:
    """The name under which a ServiceMonitor of the chart checks the certificate of a component."""
    return f"gpufleet-{component}-metrics.{NAMESPACE}.svc"


def secret(identity: Identity) -> Object:
    """The Secret that cert-manager would keep with a certificate."""
    pair = {"tls.crt": identity.certificate, "tls.key": identity.key}
    pair["ca.crt"] = AUTHORITY.identity.certificate
    data = {name: base64.b64encode(text).decode() for name, text in pair.items()}
    return {"metadata": {"name": CERTIFICATE_IN}, "type": "kubernetes.io/tls", "data": data}


def trusting() -> ssl.SSLContext:
    """A client that trusts certificates of this authority alone."""
    return ssl.create_default_context(cadata=AUTHORITY.identity.certificate.decode())


def page(address: str, component: str) -> str:
    """What one pod tells Prometheus."""
    tls = trusting()
    # A pod's address is in no certificate.
    tls.check_hostname = False
    url = f"https://{address}:{PORTS[component]}/metrics"
    with urllib.request.urlopen(url, timeout=WAIT_S, context=tls) as answer:
        text: str = answer.read().decode()
    return text


def shown(addresses: Addresses) -> Iterator[str]:
    """The certificate that each pod shows to a client that checks it by its name, as PEM."""
    for component, of_pods in addresses.items():
        for address in of_pods:
            with (
                socket.create_connection((address, PORTS[component]), WAIT_S) as plain,
                trusting().wrap_socket(plain, server_hostname=service(component)) as tls,
            ):
                yield ssl.DER_cert_to_PEM_cert(tls.getpeercert(binary_form=True) or b"")


def scraping(addresses: Addresses, folder: Path) -> str:
    """A configuration of Prometheus that scrapes each of these pods as the ServiceMonitors say."""
    trusted = folder / "ca.crt"
    trusted.write_bytes(AUTHORITY.identity.certificate)
    jobs = [
        {
            "job_name": component,
            "scheme": "https",
            "scrape_interval": "10s",
            "tls_config": {"ca_file": str(trusted), "server_name": service(component)},
            "static_configs": [{"targets": [f"{address}:{PORTS[component]}" for address in of_pods]}],
        }
        for component, of_pods in addresses.items()
    ]
    # JSON is YAML.
    return json.dumps({"scrape_configs": jobs})


def answer(prometheus: str, query: str) -> dict[str, list[float]]:
    """What the Prometheus at this address answers to a query: the values of each job."""
    url = f"{prometheus}/api/v1/query?query={urllib.parse.quote(query)}"
    with urllib.request.urlopen(url, timeout=WAIT_S) as said:  # noqa: S310  our own server
        result = json.load(said)["data"]["result"]
    found: dict[str, list[float]] = {}
    for one in result:
        found.setdefault(one["metric"]["job"], []).append(float(one["value"][1]))
    return found
