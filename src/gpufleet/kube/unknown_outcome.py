"""A write of unknown outcome, and how to find it out.

A timeout, a broken connection or a 5xx says nothing about whether the server acted. Repeating the
write blindly could bind a pod twice or undo what another did in between, so ``client`` raises
``OutcomeUnknown`` and its caller reads back what it wanted::

    try:
        await client.bind(...)
    except OutcomeUnknown as unknown:
        body = await client.read_back(unknown)  # None: the object is not there
        ... compare with what was asked, then be content, give up, or ask again

The write may still be on its way when it is read back and land later. A repeat is therefore safe
only with a precondition (uid, resourceVersion) that makes the later of the two fail.
"""

import msgspec

from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.resources import Kind


class AskedWrite(msgspec.Struct, frozen=True):
    """What a write asked for: enough to find it again, without its body."""

    verb: str
    kind: Kind
    name: str
    namespace: str = ""
    subresource: str = ""

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        part = f"/{self.subresource}" if self.subresource else ""
        return f"{self.verb} {self.kind.plural}{part} {place}"


class OutcomeUnknown(KubeError):
    """The write may have happened or not: read back before asking again.

    ``cause`` says why the outcome is unknown; ``retry_after_s`` is when the server wants to be asked again,
    None if it did not say.
    """

    def __init__(self, asked: AskedWrite, cause: KubeError, retry_after_s: float | None = None) -> None:
        self.asked = asked
        self.cause = cause
        self.retry_after_s = retry_after_s
        super().__init__(f"{asked}: outcome unknown: {cause}")
