"""What an API server says when it refuses: Kubernetes' Status object as a tree of errors.

The tree follows the HTTP code, because proxies and old servers do not always send a Status.
``client`` raises these; ``mirror`` meets them inside ERROR events too.
"""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec

from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.transport import Response
from gpufleet.model.model_errors import printable

MESSAGE_LIMIT = 1000
"""A server's words stand in one line of our log and may be of any length."""


class StatusCause(msgspec.Struct, frozen=True):
    """One of several reasons: which field, and why."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(msgspec.Struct, frozen=True, rename="camel"):
    """What a refusal is about."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int | None = None


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """The Status object of meta/v1, as far as we read it."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None


_DECODER = msgspec.json.Decoder(Status)


class StatusError(KubeError):
    """The server answered, and the answer is no.

    ``retry_after_s`` is None where the server did not say when to come back.
    """

    def __init__(self, status: Status, retry_after_s: float | None = None) -> None:
        self.code = status.code
        self.reason = status.reason
        self.message = status.message
        self.details = status.details or StatusDetails()
        self.retry_after_s = retry_after_s
        super().__init__(f"{self.code} {self.reason}: {printable(self.message, MESSAGE_LIMIT)}")


class BadRequest(StatusError):
    """400: the request is not understood."""


class Unauthorized(StatusError):
    """401: the server does not accept our credentials."""


class Forbidden(StatusError):
    """403: we may not do this."""


class NotFound(StatusError):
    """404: no such object, or the server does not serve this kind."""


class Conflict(StatusError):
    """409: the object is not what the request supposed (version, uid), or has a node already."""


class AlreadyExists(Conflict):
    """409: an object of this name exists."""


class Gone(StatusError):
    """410: the resourceVersion or continue token is too old."""


class Invalid(StatusError):
    """422: the object breaks a rule; ``details.causes`` names the fields."""


class TooManyRequests(StatusError):
    """429: come back later; for an eviction: a disruption budget forbids it now."""


class ServerFailure(StatusError):
    """5xx: the server could not; whether a write happened is not known from this."""


class Unavailable(ServerFailure):
    """503: the server takes no requests now."""


# Codes that callers tell apart; all others are a ServerFailure from 500 on, a StatusError below.
_BY_CODE: dict[int, type[StatusError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
    503: Unavailable,
}


def status_error(status: Status, retry_after_s: float | None = None) -> StatusError:
    """The error that stands for a Status."""
    if retry_after_s is None and status.details is not None:
        asked_s = status.details.retry_after_seconds
        # Zero is the server's way of not saying.
        retry_after_s = float(asked_s) if asked_s and asked_s > 0 else None
    if status.reason == "AlreadyExists":
        return AlreadyExists(status, retry_after_s)
    found = _BY_CODE.get(status.code, ServerFailure if status.code >= 500 else StatusError)
    return found(status, retry_after_s)


def response_error(response: Response, now: datetime) -> StatusError:
    """The error that stands for an answer of 300 or more; ``now`` is needed for dates in Retry-After."""
    status = read_status(response.body)
    if status is None or status.code != response.status:
        text = response.body[:MESSAGE_LIMIT].decode("utf-8", "replace").strip()
        message = status.message if status is not None and status.message else text
        reason = status.reason if status is not None else ""
        details = status.details if status is not None else None
        status = Status(code=response.status, reason=reason, message=message, details=details)
    return status_error(status, retry_after_s(response.headers.get("retry-after", ""), now))


def read_status(body: bytes | msgspec.Raw) -> Status | None:
    """The Status object in an answer, or None if it is something else."""
    try:
        return _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def retry_after_s(header: str, now: datetime) -> float | None:
    """Seconds that a Retry-After header asks for: a number or an HTTP date (RFC 9110, 10.2.3).

    None where there is none or it cannot be read.
    """
    if not header:
        return None
    if header.isascii() and header.isdigit():
        # Nine digits are thirty years; hundreds of digits would make an infinite float.
        return float(header[:9])
    try:
        date = parsedate_to_datetime(header)
    except (TypeError, ValueError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max(0.0, (date - now).total_seconds())
