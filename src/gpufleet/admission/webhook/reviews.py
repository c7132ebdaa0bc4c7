"""What the API server sends to a webhook, and what it takes for an answer (AdmissionReview v1).

Of a request only what is judged is read; the object itself stays as it came, a value of JSON.
"""

import base64
from typing import Any

import msgspec

from gpufleet.model.model_errors import InputError

API_VERSION, KIND = "admission.k8s.io/v1", "AdmissionReview"


class GroupKind(msgspec.Struct, frozen=True):
    """The kind of the object."""

    group: str = ""
    kind: str = ""


class AdmissionRequest(msgspec.Struct, frozen=True, rename="camel"):
    """One request. ``old_object`` is empty at a creation."""

    uid: str
    kind: GroupKind = GroupKind()
    namespace: str = ""
    operation: str = ""
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None
    dry_run: bool | None = None


class Review(msgspec.Struct, frozen=True, rename="camel"):
    """The document around a request."""

    api_version: str
    kind: str
    request: AdmissionRequest


_DECODER = msgspec.json.Decoder(Review)


def read_review(body: bytes) -> AdmissionRequest:
    """The request of a document. Raises InputError for any other document."""
    try:
        found = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"no review: {error}", expected=f"{KIND} of {API_VERSION}") from error
    if (found.api_version, found.kind) != (API_VERSION, KIND):
        said = f"{found.api_version} {found.kind}"
        raise InputError("another document", value=said, expected=f"{KIND} of {API_VERSION}")
    return found.request


def allowed(uid: str, warnings: list[str], audited: dict[str, str]) -> bytes:
    """The object passes, with these warnings and notes in the audit log."""
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if warnings:
        response["warnings"] = warnings
    if audited:
        response["auditAnnotations"] = audited
    return _document(response)


def refused(uid: str, message: str) -> bytes:
    """The object is refused."""
    status = {"code": 403, "reason": "Forbidden", "message": message}
    return _document({"uid": uid, "allowed": False, "status": status})


def patched(uid: str, patch: list[dict[str, Any]]) -> bytes:
    """The object passes with this JSON Patch."""
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(patch)).decode()
    return _document(response)


def _document(response: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})
