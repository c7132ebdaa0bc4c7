"""What is wrong in the cluster: what the doctor finds, and the alerts that fire in Prometheus.

The doctor lists all kinds that it judges, so its answer is kept for a while, however many people ask.
"""

import asyncio

from gpufleet.kube.clock import Clock
from gpufleet.kube.codec.times import whole_time
from gpufleet.web.asking.process import Asking
from gpufleet.web.asking.questions import WhatIsWrong
from gpufleet.web.documents import ProblemsDocument, Refusal
from gpufleet.web.firing_alerts import FiringAlerts
from gpufleet.web.login.person import RefusedError

KEPT_S = 30.0
"""The doctor lists some sixty kinds; what it finds seldom changes within this time."""

NO_PROMETHEUS = "which alerts fire is not known: no Prometheus was named (--prometheus)"


class Problems:
    """The newest answer about what is wrong, which all open pages share."""

    def __init__(self, asking: Asking, clock: Clock, alerts: FiringAlerts | None) -> None:
        self._asking = asking
        self._clock = clock
        self._alerts = alerts
        self._turn = asyncio.Lock()
        self._found: ProblemsDocument | None = None
        self._found_at_s = 0.0

    async def now(self) -> ProblemsDocument:
        """What is wrong. Raises RefusedError where the doctor cannot be asked."""
        async with self._turn:
            if self._found is None or self._clock.monotonic_s() - self._found_at_s > KEPT_S:
                self._found = await self._ask()
                self._found_at_s = self._clock.monotonic_s()
            return self._found

    async def _ask(self) -> ProblemsDocument:
        reply = await self._asking.ask(WhatIsWrong())
        report = reply.report
        if report is None:
            problem = "the doctor did not answer" if reply.problem is None else reply.problem.problem
            raise RefusedError(503, Refusal(problem, way_out="ask again, or run `gpufleet doctor`"))
        alerts, unknown = ((), NO_PROMETHEUS) if self._alerts is None else await self._alerts.now()
        unjudged = (f"{point.title}: {words}" for point in report.points for words in point.unjudged)
        return ProblemsDocument(
            whole_time(self._clock.now()),
            report.healthy and not alerts,
            report.causes,
            tuple(unjudged),
            alerts,
            unknown,
        )
