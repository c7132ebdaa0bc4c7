"""Reading the bytes of an answer with the decoder of what is expected."""

from typing import TypeVar

import msgspec

from gpufleet.kube.kube_errors import KubeError

Value = TypeVar("Value")


class AnswerUnreadable(KubeError):
    """The server said yes, but its answer is not what Kubernetes answers: often a proxy's page."""


def decode(body: bytes, decoder: msgspec.json.Decoder[Value]) -> Value:
    """An answer as a value. Raises AnswerUnreadable."""
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise AnswerUnreadable(f"an answer is not as expected: {error}") from error
