"""What preflight says: a rule by its name, how grave it is, what it saw, and the way out."""

import enum

import msgspec


class FindingSeverity(enum.Enum):
    """Whether a finding stops a rollout on the node, warns, or says that something is not known."""

    BLOCKS = "blocks"
    WARNS = "warns"
    UNKNOWN = "unknown"


class PreflightFinding(msgspec.Struct, frozen=True):
    """One finding."""

    rule: str
    severity: FindingSeverity
    message: str
    way_out: str
