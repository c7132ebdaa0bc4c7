"""Lays projects out for people; ``operator.projects`` has what they are made of."""

import sys
from collections.abc import Iterator, Sequence

import click

from gpufleet.cli.output import echo_json, echo_line
from gpufleet.model.phrases import counted, listed
from gpufleet.operator.projects.ending import ProjectContent
from gpufleet.operator.projects.project_answers import ProjectAnswer, Projects
from gpufleet.operator.projects.project_usage import ProjectUsage
from gpufleet.operator.projects.questions import Person

HEADER = ("PROJECT", "TEAM", "QUEUE", "NAMESPACES", "MEMBERS", "READY")
NAMES_MAX = 4
"""Names of namespaces in a line of the table; as many as a terminal has room for."""

NOT_SEEN = "not told yet: no operator has seen this version of the project"


def show_created(told: ProjectAnswer, output: str) -> None:
    """Say what was made, and what follows."""
    if output == "json":
        echo_json(told)
        return
    echo_line(f"Project {told.name} is made; the operator makes {listed(told.namespaces, NAMES_MAX)}.")
    echo_line(f"How far it is: gpufleet project show {told.name}")


def show_projects(found: Projects, output: str) -> None:
    """Print all projects as a table."""
    if output == "json":
        echo_json(found)
        return
    if not found.projects:
        echo_line("There is no project.")
    else:
        rows = [HEADER, *(_row(one) for one in found.projects)]
        for line in _table(rows):
            echo_line(line)
    for note in found.notes:
        echo_line(f"Note: {note}")


def show_project(told: ProjectAnswer, output: str) -> None:
    """Print one project."""
    if output == "json":
        echo_json(told)
        return
    for line in project_lines(told):
        echo_line(line)


def project_lines(told: ProjectAnswer) -> Iterator[str]:
    """The whole text about one project."""
    yield f"Project {told.name} of team {told.team}"
    if told.ready is None:
        yield f"  {NOT_SEEN}"
    else:
        yield f"  {'ready' if told.ready else 'not ready'}, {told.reason}: {told.message}"
    yield f"  queue: {told.queue or 'none; its work waits where queues admit its namespaces'}"
    yield f"  namespaces: {', '.join(told.namespaces)}"
    if told.left:
        yield f"  named no more and still there: {', '.join(told.left)}"
    if told.namespaces_max:
        names = f"names begin with {told.namespace_prefix}"
        yield f"  owners add namespaces up to {told.namespaces_max} in all; {names}"
    yield f"  members: {'none' if not told.members else ''}".rstrip()
    rows = [(one.role, one.user or f"group {one.group}") for one in told.members]
    yield from (f"    {line}" for line in _table(rows))
    if told.quotas:
        yield "  used of quotas:"
        amounts = [
            (one.namespace, one.key, f"{'not counted' if one.used is None else one.used} of {one.hard}")
            for one in told.quotas
        ]
        yield from (f"    {line}" for line in _table(amounts))
    for note in told.notes:
        yield f"Note: {note}"


def show_invited(told: ProjectAnswer, person: Person, role: str, output: str, *, is_new: bool) -> None:
    """Say who may do what now."""
    if output == "json":
        echo_json(told)
        return
    is_so = "is now" if is_new else "is already"
    echo_line(f"{_begun(person)} {is_so} {role} of project {told.name}.")


def show_removed(told: ProjectAnswer, person: Person, output: str) -> None:
    """Say who is no member any more."""
    if output == "json":
        echo_json(told)
        return
    echo_line(f"{_begun(person)} is no member of project {told.name} any more.")


def show_namespace(told: ProjectAnswer, namespace: str, output: str, *, is_new: bool) -> None:
    """Say what was added."""
    if output == "json":
        echo_json(told)
        return
    verb = "is added; the operator makes it" if is_new else "belongs to it already"
    echo_line(f"Project {told.name}: namespace {namespace} {verb}.")


def show_namespace_removed(told: ProjectAnswer, namespace: str, output: str) -> None:
    """Say what ends."""
    if output == "json":
        echo_json(told)
        return
    echo_line(f"Project {told.name}: namespace {namespace} is being deleted with all that is in it.")


def content_lines(content: ProjectContent) -> Iterator[str]:
    """What ends with a project."""
    gone = "" if content.exists else " (the project itself is gone already)"
    yield f"Project {content.name} has{gone}:"
    for one in content.namespaces:
        claims = counted(one.volume_claims, "volume claim")
        yield f"  namespace {one.name}: {counted(one.pods, 'pod')}, {claims}"
    yield from (f"  {kind} {name}" for kind, name in content.objects)


def usage_lines(usage: ProjectUsage) -> Iterator[str]:
    """What a project has used."""
    for one in usage.usage or ():
        yield f"  {one.namespace} held {one.held_gpu_hours:.1f} GPU-hours from {usage.begin} to {usage.end}"
    for note in usage.notes:
        yield f"Note: {note}"


def agreed(question: str) -> bool:
    """Whether a person at the terminal agrees; without a terminal it is no."""
    if not sys.stdin.isatty():
        echo_line("Nothing was changed; --yes does it.", err=True)
        return False
    if click.confirm(question, err=True):
        return True
    echo_line("Nothing was changed.", err=True)
    return False


def _begun(person: Person) -> str:
    text = str(person)
    return text[0].upper() + text[1:]


def _row(one: ProjectAnswer) -> tuple[str, ...]:
    ready = "not seen" if one.ready is None else "yes" if one.ready else f"no, {one.reason}"
    names = listed(one.namespaces, NAMES_MAX)
    return one.name, one.team, one.queue or "-", names, str(len(one.members)), ready


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Columns as wide as their widest cell."""
    if not rows:
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
