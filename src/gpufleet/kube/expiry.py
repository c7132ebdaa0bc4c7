"""When credentials end: certificates and tokens, read without trusting or checking them.

Only their dates are looked at, so that ``expiry_watch`` can say in time what has not been renewed. A
certificate is walked by hand as far as its dates (X.509, RFC 5280 section 4.1); a token of a service account
is a JSON Web Token with claims ``exp`` and ``iat`` that count seconds since 1970 (RFC 7519 section 4.1).
"""

import base64
import binascii
import re
from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec

ALARM_S = 7 * 86_400.0
"""A warning is given so long before the end."""

LAST_PART = 0.1
"""A credential that lives short is renewed late: only the last tenth of its life is near its end. A kubelet
renews tokens at four fifths.
"""

_PEM = re.compile(r"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
# Tags of DER (X.690); the version is explicit, in context 0.
_SEQUENCE, _EXPLICIT_VERSION, _UTC_TIME = 0x30, 0xA0, 0x17


class Expiry(msgspec.Struct, frozen=True):
    """The end of one credential, in seconds since 1970; ``begins_s`` is None where it does not tell."""

    credential: str
    ends_s: float
    begins_s: float | None = None

    def is_near(self, now_s: float) -> bool:
        """Whether it should have been renewed by now."""
        lasts_s = None if self.begins_s is None else self.ends_s - self.begins_s
        before_s = ALARM_S if lasts_s is None else min(ALARM_S, lasts_s * LAST_PART)
        return self.ends_s - now_s <= before_s

    def sentence(self, now_s: float) -> str:
        """What a person is told of it."""
        when = datetime.fromtimestamp(self.ends_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
        tense = "ends" if self.ends_s > now_s else "has ended"
        what = self.credential.replace("-", " ")
        return f"the {what} on the way to the API server {tense} at {when}, and has not been renewed"


def certificate_expiry(credential: str, pem: str) -> Expiry | None:
    """Expiry of the first certificate of a PEM text, the holder's own; None where it has none."""
    return next(_all(credential, pem), None)


def authority_expiry(credential: str, pem: str) -> Expiry | None:
    """The latest expiry in a bundle: during a replacement it holds an old and a new certificate."""
    return max(_all(credential, pem), key=lambda one: one.ends_s, default=None)


def token_expiry(credential: str, token: str) -> Expiry | None:
    """None for a token that is no JSON Web Token, or never ends."""
    try:
        payload = token.split(".")[1]
        # A token leaves out the padding that base64 asks for (RFC 7515, section 2).
        text = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        claims = msgspec.json.decode(text, type=_Claims)
    except (IndexError, binascii.Error, ValueError, msgspec.DecodeError):
        return None
    return None if claims.exp is None else Expiry(credential, claims.exp, claims.iat)


class _Claims(msgspec.Struct, frozen=True):
    exp: float | None = None
    iat: float | None = None


def _all(credential: str, pem: str) -> Iterator[Expiry]:
    for body in _PEM.findall(pem):
        try:
            begins_s, ends_s = der_validity(binascii.a2b_base64(body))
        except (binascii.Error, ValueError, IndexError):
            continue
        yield Expiry(credential, ends_s, begins_s)


def der_validity(certificate: bytes) -> tuple[float, float]:
    """First and last second of a certificate in DER. Raises ValueError or IndexError for what is none."""
    _, whole, _ = _element(certificate)
    _, fields, _ = _element(whole)
    # An optional version, serial number, algorithm and issuer stand before the dates.
    tag, _, rest = _element(fields)
    for _ in range(3 if tag == _EXPLICIT_VERSION else 2):
        _, _, rest = _element(rest)
    tag, dates, _ = _element(rest)
    if tag != _SEQUENCE:
        raise ValueError("no dates where they belong")
    tag, begin, rest = _element(dates)
    end_tag, end, _ = _element(rest)
    return _time_s(tag, begin), _time_s(end_tag, end)


def _element(data: bytes) -> tuple[int, bytes, bytes]:
    """Tag and content of the first element, and what comes after it."""
    length, at = data[1], 2
    # The long form of a length (X.690): the lower bits say how many bytes hold it.
    if length & 0x80:
        at += length & 0x7F
        length = int.from_bytes(data[2:at], "big")
    if len(data) < at + length:
        raise ValueError("cut short")
    return data[0], data[at : at + length], data[at + length :]


def _time_s(tag: int, text: bytes) -> float:
    """UTCTime has two digits for the year: from 50 on it is one of the last century."""
    digits = text.decode("ascii")
    if tag == _UTC_TIME:
        digits = ("19" if digits[:2] >= "50" else "20") + digits
    return datetime.strptime(digits, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()
