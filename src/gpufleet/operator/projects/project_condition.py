"""What is told of a project: whether it is as it says, why not, and which namespaces it has."""

import msgspec

READY = "AsTheProjectSays"
TAKEN = "NamespaceTaken"
QUEUE_TAKEN = "QueueTaken"
REFUSED = "Refused"
NOT_WRITTEN = "NotWritten"
WRITING = "Writing"
LEAVING = "NamespaceEnding"
ENDING = "Ending"
"""The reasons of the condition."""

AT_REST = frozenset((READY, TAKEN, QUEUE_TAKEN, ENDING, REFUSED, LEAVING))
"""Where only a change can bring something new, which a watch tells."""

SETTLED = frozenset((READY, ENDING, REFUSED))
"""Where only a change of the project or of its own objects can bring something new. Others depend on objects
that no label of theirs names, and are looked at in every round."""

UNREADABLE = "the object has fields of another version of gpufleet"


class ProjectCondition(msgspec.Struct, frozen=True):
    """How far a project is, with the reason and a sentence.

    ``namespaces`` are those that it has or had and that are there, and those that are being made.
    """

    reason: str
    message: str
    namespaces: tuple[str, ...] = ()
