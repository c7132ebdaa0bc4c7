"""The ways in which an API server says no: Status objects with code, reason and details.

Texts and details are those of ``k8s.io/apimachinery/pkg/api/errors``: clients read them.
"""

from typing import Any

import msgspec

JsonObject = dict[str, Any]


class Cause(msgspec.Struct, frozen=True):
    """One field that is wrong: what kind of wrong, its path, and the words."""

    kind: str
    field: str
    words: str


class Refusal(Exception):  # noqa: N818 - an answer of the simulated server, not an error of ours
    """A request is answered with this Status."""

    def __init__(
        self, code: int, reason: str, message: str, details: JsonObject | None = None, carry_on: str = ""
    ) -> None:
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.carry_on = carry_on
        super().__init__(message)

    @property
    def retry_after_s(self) -> int | None:
        """What stands in the Retry-After header, None for no header."""
        seconds: int | None = (self.details or {}).get("retryAfterSeconds")
        return seconds

    def status(self) -> JsonObject:
        """The object as it stands on the wire."""
        metadata: JsonObject = {"continue": self.carry_on} if self.carry_on else {}
        found: JsonObject = {"kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure"}
        found["message"] = self.message
        if self.reason:
            found["reason"] = self.reason
        if self.details is not None:
            found["details"] = self.details
        found["code"] = self.code
        return found


def _details(group: str, kind: str, name: str) -> JsonObject:
    found = {"name": name, "group": group, "kind": kind}
    return {key: value for key, value in found.items() if value}


def _qualified(group: str, plural: str) -> str:
    return f"{plural}.{group}" if group else plural


def bad_request(words: str) -> Refusal:
    """400: the request cannot be read."""
    return Refusal(400, "BadRequest", words)


def forbidden(group: str, plural: str, name: str, words: str) -> Refusal:
    """403: an admission plugin or the rights say no."""
    return Refusal(
        403,
        "Forbidden",
        f'{_qualified(group, plural)} "{name}" is forbidden: {words}',
        _details(group, plural, name),
    )


class NoSuchPath(Exception):  # noqa: N818 - an answer of the simulated server, not an error of ours
    """404 in plain words: the server has no such group or version."""


def unknown_path() -> Refusal:
    """404: the version has no such resource."""
    return Refusal(404, "NotFound", "the server could not find the requested resource", {})


def not_found(group: str, plural: str, name: str) -> Refusal:
    """404: no object of this name."""
    return Refusal(
        404, "NotFound", f'{_qualified(group, plural)} "{name}" not found', _details(group, plural, name)
    )


def method_not_allowed(words: str) -> Refusal:
    """405: the resource knows no such verb."""
    return Refusal(405, "MethodNotAllowed", words, {})


def already_exists(group: str, plural: str, name: str) -> Refusal:
    """409 on create."""
    return Refusal(
        409,
        "AlreadyExists",
        f'{_qualified(group, plural)} "{name}" already exists',
        _details(group, plural, name),
    )


def conflict(group: str, plural: str, name: str, words: str) -> Refusal:
    """409: the object is another one, or of another version, than the writer believed."""
    return Refusal(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {_qualified(group, plural)} "{name}": {words}',
        _details(group, plural, name),
    )


def precondition_failed(plural: str, metadata: JsonObject, field: str, asked: str, found: str) -> str:
    """What a failed precondition says, storage key and all."""
    place = "/".join(filter(None, (plural, metadata.get("namespace"), metadata["name"])))
    return (
        f"StorageError: invalid object, Code: 4, Key: /registry/{place}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: {field} in precondition: {asked}, "
        f"{field} in object meta: {found}"
    )


def expired(words: str, carry_on: str = "") -> Refusal:
    """410: the history that was asked for is gone."""
    return Refusal(410, "Expired", words, carry_on=carry_on)


def unsupported_media_type(words: str) -> Refusal:
    """415: a patch of a kind that this resource does not take."""
    return Refusal(415, "UnsupportedMediaType", words, {})


def invalid(group: str, kind: str, name: str, *causes: Cause) -> Refusal:
    """422: fields of the object are wrong."""
    words = [f"{cause.field}: {cause.words}" for cause in causes]
    told = words[0] if len(words) == 1 else f"[{', '.join(words)}]"
    details = _details(group, kind, name)
    details["causes"] = [
        {"reason": cause.kind, "message": cause.words, "field": cause.field} for cause in causes
    ]
    return Refusal(422, "Invalid", f'{_qualified(group, kind)} "{name}" is invalid: {told}', details)


def too_many_requests(words: str, retry_after_s: int = 0, causes: list[JsonObject] | None = None) -> Refusal:
    """The refusal 429: the client is to come back later."""
    details: JsonObject = {"causes": causes} if causes else {}
    if retry_after_s:
        details["retryAfterSeconds"] = retry_after_s
    return Refusal(429, "TooManyRequests", words, details)


def unreadable(words: str) -> Refusal:
    """500 without a reason: an error that the server did not turn into a status of its own."""
    return Refusal(500, "", words)


def internal_error(words: str) -> Refusal:
    """The refusal 500: the server failed."""
    return Refusal(
        500, "InternalError", f"Internal error occurred: {words}", {"causes": [{"message": words}]}
    )


def service_unavailable(words: str, retry_after_s: int = 0) -> Refusal:
    """503: the server cannot serve now."""
    details: JsonObject | None = {"retryAfterSeconds": retry_after_s} if retry_after_s else None
    return Refusal(503, "ServiceUnavailable", words, details)


def too_large_revision(asked: int, current: int) -> Refusal:
    """504: a revision that this server has not seen yet."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return Refusal(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {asked}, current: {current}",
        {"causes": [cause], "retryAfterSeconds": 1},
    )
