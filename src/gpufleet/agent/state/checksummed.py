"""State of the agent as bytes for a file: JSON under a checksum, with the version of its form and the boot.

A reader believes all of it or nothing; ``disk`` writes such a file whole or not at all.
"""

import hashlib

import msgspec

# Bounds what is parsed: a record grows with the containers of a node.
MAXIMUM_BYTES = 4 * 1024 * 1024


class _Envelope(msgspec.Struct, frozen=True):
    sha256: str
    data: msgspec.Raw


class Head(msgspec.Struct, frozen=True):
    """What the text under the checksum says of itself before anything else is read."""

    version: int
    boot_id: str


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_HEAD = msgspec.json.Decoder(Head)


class ChecksumError(ValueError):
    """The bytes are not those that were written; the sentence goes after the name of the file."""


def with_checksum(value: msgspec.Struct) -> bytes:
    """A value that has the fields of ``Head``, under its checksum."""
    data = msgspec.json.encode(value)
    # ``Raw`` keeps the very bytes of which the checksum is.
    return msgspec.json.encode(_Envelope(_checksum(data), msgspec.Raw(data)))


def checked(text: bytes, version: int) -> tuple[Head, bytes]:
    """The head and the value of a text of this version of its form. Raises ChecksumError."""
    if len(text) > MAXIMUM_BYTES:
        raise ChecksumError(f"has {len(text)} bytes, more than {MAXIMUM_BYTES}")
    try:
        envelope = _ENVELOPE.decode(text)
        data = bytes(envelope.data)
        if _checksum(data) != envelope.sha256:
            raise ChecksumError("is damaged: its checksum does not fit")
        head = _HEAD.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ChecksumError(f"is damaged: {error}") from None
    if head.version != version:
        raise ChecksumError(f"is of version {head.version}, not {version}")
    return head, data


def _checksum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
