"""The file with which kubectl, our scheduler and every other client reach one local cluster.

Certificates travel inside, so the file can be copied; it is written for its owner alone. It stands in
the cluster's folder: a user's own ~/.kube/config is never touched.
"""

import base64
from pathlib import Path

from gpufleet.localkube.access.certificates import Identity, write_private

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
{user}
"""


def write(path: Path, context: str, server: str, authority: bytes, identity: Identity) -> None:
    """Write a kubeconfig with one context; ``authority`` is the certificate to trust, as PEM."""
    certificate, key = _encoded(identity.certificate), _encoded(identity.key)
    user = f"    client-certificate-data: {certificate}\n    client-key-data: {key}"
    _write(path, context, server, authority, user)


def write_with_token(path: Path, context: str, server: str, authority: bytes, token: str) -> None:
    """Write a kubeconfig for a user that shows a token instead of a certificate."""
    _write(path, context, server, authority, f"    token: {token}")


def _write(path: Path, context: str, server: str, authority: bytes, user: str) -> None:
    content = TEMPLATE.format(context=context, server=server, authority=_encoded(authority), user=user)
    write_private(path, content.encode())


def _encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode("ascii")
