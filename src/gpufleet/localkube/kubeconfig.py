"""The file with which kubectl, our scheduler and every other client reach one local cluster.

Certificates travel inside, so the file can be copied; it is written for its owner alone. It stands in
the cluster's folder: a user's own ~/.kube/config is never touched.
"""

import base64
from pathlib import Path

from gpufleet.localkube.certificates import Identity, write_private

TEMPLATE = """\
apiVersion: v1
kind: Config
current-context: {context}
contexts:
- name: {context}
  context: {{cluster: {context}, user: {context}}}
clusters:
- name: {context}
  cluster:
    server: {server}
    certificate-authority-data: {authority}
users:
- name: {context}
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
"""


def write(path: Path, context: str, server: str, authority: bytes, identity: Identity) -> None:
    """Write a kubeconfig with one context; ``authority`` is the certificate to trust, as PEM."""
    content = TEMPLATE.format(
        context=context,
        server=server,
        authority=_encoded(authority),
        certificate=_encoded(identity.certificate),
        key=_encoded(identity.key),
    )
    write_private(path, content.encode())


def _encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode("ascii")
