"""One reading: everything that a view needs is read once, within a time, and returned as lines and notes."""

import asyncio
import datetime as dt
from typing import Any, NamedTuple

from gpufleet.kube.connection import connect
from gpufleet.model.model_errors import GpufleetError
from gpufleet.model.phrases import counted
from gpufleet.overview.readings.prometheus_use import PrometheusUse
from gpufleet.overview.readings.readings import Readings, Scope
from gpufleet.overview.rows.known import Known
from gpufleet.top.request import TopRequest
from gpufleet.top.screen.order import Order, matching
from gpufleet.top.screen.views import VIEWS
from gpufleet.top.showing import NEEDS_ENGINE, NEEDS_USE, ViewLines, missing

CONNECTIONS = 8
"""As many agents as are asked at one time."""
USE_S = 10.0
"""After this time a table is more worth than the use of the nodes that are left."""


class FleetLines(NamedTuple):
    """The lines in order, filtered; the fleet in a few words; what a person should know besides."""

    view: str
    now: dt.datetime
    lines: list[Any]
    summary: str
    notes: tuple[str, ...]


def read_once(request: TopRequest) -> FleetLines:
    """Read the cluster of the request. Raises what its API server refuses as a whole."""
    return asyncio.run(_read_once(request))


async def _read_once(request: TopRequest) -> FleetLines:
    choice = request.choice()
    source = None if request.prometheus is None else PrometheusUse(request.prometheus)
    async with connect(request.cluster, connections=CONNECTIONS) as connection:
        scope = Scope(request.namespaces, request.all_namespaces, connection.namespace)
        readings = Readings(connection.client, request.settings, scope, source)
        await readings.list_all()
        notes = []
        if request.view in NEEDS_ENGINE:
            await _ask_engine(readings)
        if request.view in NEEDS_USE:
            notes += await _measure(readings, with_past=request.view == "idle")
        known = readings.known()
    lines, summary = ViewLines(request.scheduler_name, request.selector).of(request.view, known)
    view = VIEWS[request.view]
    ordered = Order().of(view, lines, choice.sort_by, reverse=choice.reverse)
    return FleetLines(
        request.view,
        known.now,
        matching(view, ordered, choice.filter),
        summary,
        _notes(request, readings, known, notes),
    )


async def _ask_engine(readings: Readings) -> None:
    """Loads the engine, which takes a second."""
    from gpufleet.overview.readings.engine_asking import ask_engine

    try:
        readings.engine_report = await ask_engine(readings.client, readings.settings)
    except* GpufleetError as group:
        readings.engine_failed(group.exceptions[0])


async def _measure(readings: Readings, *, with_past: bool) -> list[str]:
    nodes = sorted(name for _, name in readings.devices.objects)
    try:
        async with asyncio.timeout(USE_S):
            await readings.read_use(nodes, with_past=with_past)
    except TimeoutError:
        if readings.prometheus is not None:
            return [f"use is not known: {readings.prometheus.url} did not answer within {USE_S:.0f} s"]
        asked = len(readings.agents.use) + len(readings.agents.failed)
        left = len(nodes) - asked
        return [
            f"use of {counted(left, 'node')} was not read within {USE_S:.0f} s; --prometheus has all at once"
        ]
    return []


def _notes(request: TopRequest, readings: Readings, known: Known, notes: list[str]) -> tuple[str, ...]:
    found = [f"{readings.leading.problem}: nothing starts"] if readings.leading.problem else []
    found += [readings.leading.note, readings.lease_problem, *missing(request.view, known), *notes]
    if request.view in NEEDS_USE and known.use:
        found.append(readings.use_problem())
    return tuple(dict.fromkeys(note for note in found if note))
