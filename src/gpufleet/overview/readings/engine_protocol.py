"""What goes between a view of the fleet and the process that asks the engine for it. Loads no engine."""

import struct

import msgspec

from gpufleet.overview.rows.engine_report import EngineReport

LENGTH = struct.Struct(">Q")


class EngineQuestion(msgspec.Struct, frozen=True):
    """Which cluster and which scheduler; the one argument of the process, as JSON."""

    kubeconfig: str
    context: str
    scheduler_name: str
    lease_namespace: str


class EngineReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """Either of the two."""

    engine_report: EngineReport | None = None
    problem: str = ""
