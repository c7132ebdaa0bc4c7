"""What goes between ``gpufleet web`` and the process that answers its questions. Loads no engine."""

import msgspec

from gpufleet.doctor.report import Report
from gpufleet.explain.answer import Answer as Explanation
from gpufleet.overview.rows.engine_report import EngineReport
from gpufleet.whatif.answer import Answer as Plan


class Asked(msgspec.Struct, frozen=True):
    """Which cluster and which scheduler; the one argument of the process, as JSON."""

    kubeconfig: str
    context: str
    scheduler_name: str
    lease_namespace: str


class HowQueuesStand(msgspec.Struct, frozen=True, tag=True):
    """How queues and gangs stand, and why work waits."""


class WhyWorkWaits(msgspec.Struct, frozen=True, tag=True):
    """Why a pod or a gang is as it is."""

    kind: str
    namespace: str
    name: str


class WhatChangesBring(msgspec.Struct, frozen=True, tag=True):
    """What changes would bring, each as it is written for ``gpufleet whatif``.

    ``manifest`` is work as YAML or JSON, of ``namespace`` where it names none.
    """

    add_nodes: tuple[str, ...] = ()
    remove_nodes: tuple[str, ...] = ()
    set_quotas: tuple[str, ...] = ()
    manifest: str = ""
    namespace: str = "default"


class WhatIsWrong(msgspec.Struct, frozen=True, tag=True):
    """What the doctor finds."""


Question = HowQueuesStand | WhyWorkWaits | WhatChangesBring | WhatIsWrong


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why there is no answer. ``is_input`` says that the question is at fault, in this field, ``where`` in a
    manifest.
    """

    problem: str
    field: str = ""
    value: str = ""
    way_out: str = ""
    is_input: bool = False
    where: str = ""


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to a question, by its kind, or the problem."""

    engine_report: EngineReport | None = None
    explanation: Explanation | None = None
    plan: Plan | None = None
    report: Report | None = None
    problem: Problem | None = None
