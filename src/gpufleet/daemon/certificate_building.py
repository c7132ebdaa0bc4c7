"""What the certificates have in common that gpufleet makes itself: of a local cluster, and of the webhook.

``localkube.access.certificates`` and ``admission.certificates`` say whose they are, for what, and how long.
"""

import datetime as dt

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

AUTHORITY_USAGE = x509.KeyUsage(
    digital_signature=True,
    key_cert_sign=True,
    crl_sign=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)
"""An authority signs certificates and lists of those that are revoked, and nothing is encrypted with it."""


def begun_certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    *,
    since: dt.datetime,
    until: dt.datetime,
) -> x509.CertificateBuilder:
    """A certificate with a serial number of its own, to which extensions are added before it is signed."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(since)
        .not_valid_after(until)
    )
