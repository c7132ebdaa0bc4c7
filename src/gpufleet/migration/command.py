"""``gpufleet import``: objects in, FleetQueues or FleetPolicies out, and what became of each field."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

from gpufleet.files.regular import read_regular, read_standard_input
from gpufleet.kube.yaml_documents import DOCUMENTS_MAX_BYTES
from gpufleet.migration.field_notes import FieldNotes
from gpufleet.migration.fleet_policies import PolicyDraft, policy_manifest
from gpufleet.migration.gathering import gather
from gpufleet.migration.queues import Draft, as_yaml, manifest
from gpufleet.migration.report import Report, report
from gpufleet.migration.sources import Source, read_documents
from gpufleet.migration.systems import SYSTEMS, System
from gpufleet.model.model_errors import InputError

STANDARD_INPUT = "-"


class MigrationOutcome(msgspec.Struct, frozen=True):
    """The manifests as one text, and the report."""

    manifests: str
    report: Report


def from_files(name: str, paths: Sequence[str]) -> MigrationOutcome:
    """What becomes of the objects in these files; "-" is standard input."""
    sources: list[Source] = []
    for path in paths:
        if path == STANDARD_INPUT:
            sources += read_documents(read_standard_input(DOCUMENTS_MAX_BYTES), "standard input")
        else:
            sources += read_documents(read_regular(path, DOCUMENTS_MAX_BYTES), path)
    return converted(name, sources)


def from_cluster(name: str, kubeconfig: Path | None, context: str) -> MigrationOutcome:
    """What becomes of the objects in a cluster."""
    return converted(name, asyncio.run(gather(SYSTEMS[name], kubeconfig, context)))


def converted(name: str, sources: Sequence[Source]) -> MigrationOutcome:
    """What becomes of these objects. Raises InputError where there is nothing to convert."""
    system = SYSTEMS[name]
    notes = FieldNotes()
    drafts = system.convert(sources, notes)
    if not drafts:
        raise InputError(_nothing(system, sources), expected=f"objects of {system.title}")
    queues = [one for one in drafts if isinstance(one, Draft)]
    policies = [one for one in drafts if isinstance(one, PolicyDraft)]
    manifests = [*map(manifest, queues), *map(policy_manifest, policies)]
    names = ([one.name for one in queues], [one.name for one in policies])
    return MigrationOutcome(as_yaml(manifests), report(system.title, *names, notes.notes))


def _nothing(system: System, sources: Sequence[Source]) -> str:
    seen = sorted({f"{one.kind}.{one.group}".removesuffix(".") for one in sources})
    wanted = ", ".join(f"{kind}.{group}" for group in system.groups for kind in system.kinds)
    return f"none of {wanted}; found {', '.join(seen[:8]) or 'nothing'}"
