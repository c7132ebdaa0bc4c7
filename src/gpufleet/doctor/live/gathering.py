"""Asks an API server for what advice reads: lists each kind that is served, and changes nothing.

What may not be listed is no end: it is kept with its reason, and a check that needs it says that it cannot
judge.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from gpufleet.devices.sharing.nvidia_places import SOUGHT_NAMES
from gpufleet.doctor.live.kinds import WANTED, Wanted
from gpufleet.doctor.live.references import CONFIG_MAPS_OF_GUIDES, config_maps_of_stack
from gpufleet.doctor.live.trimming import manifest_of
from gpufleet.kube.answer import decode
from gpufleet.kube.client import Client
from gpufleet.kube.connection import ClusterChoice, connect
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.listing import Selection
from gpufleet.kube.resources import CONFIG_MAPS, Kind
from gpufleet.kube.status import Forbidden, Gone, NotFound
from gpufleet.lint.objects.cluster import Cluster
from gpufleet.lint.objects.manifest import Manifest

CONNECTIONS = 4
"""Enough to list several kinds at once, and little for the API server."""

TRIES = 3
"""How often a list is begun anew where the server forgot its version between two pages."""

METRICS_GROUPS = ("custom.metrics.k8s.io", "external.metrics.k8s.io")

Progress = Callable[[str], None]


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str = ""


class _Group(msgspec.Struct, frozen=True):
    name: str = ""


class _Groups(msgspec.Struct, frozen=True):
    groups: tuple[_Group, ...] | None = None


@dataclass
class Gathered:
    """What a server told. ``refused`` has the reason for each kind that could not be listed."""

    version: str
    objects: list[Manifest] = field(default_factory=list)
    listed: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, frozenset[str] | None] = field(default_factory=dict)
    """The metrics that each API of metrics serves, as it names them; None where it does not answer."""

    @property
    def cluster(self) -> Cluster:
        """The cluster in the form that rules of ``lint`` read."""
        return Cluster(tuple(self.objects), frozenset(self.listed))


def silent(_what: str) -> None:
    """Shows no progress."""


def gathered(
    kubeconfig: Path | None, context: str, wanted: Iterable[Wanted] = WANTED, progress: Progress = silent
) -> Gathered:
    """All that was found. Raises WorldError where the cluster cannot be reached or knows us not."""
    return asyncio.run(_gathered(kubeconfig, context, tuple(wanted), progress))


async def _gathered(
    kubeconfig: Path | None, context: str, wanted: tuple[Wanted, ...], progress: Progress
) -> Gathered:
    async with connect(ClusterChoice(kubeconfig, context), connections=CONNECTIONS) as connection:
        return await gather(connection.client, wanted, progress)


async def gather(
    client: Client, wanted: tuple[Wanted, ...] = WANTED, progress: Progress = silent
) -> Gathered:
    """All that a client finds."""
    version = decode(await client.read("/version"), msgspec.json.Decoder(_Version)).git_version
    found = Gathered(version)
    groups = decode(await client.read("/apis"), msgspec.json.Decoder(_Groups)).groups or ()
    served = {"", *(one.name for one in groups)}
    kinds = await _kinds(client, {one.group for one in wanted} & served)
    for number, one in enumerate(wanted, start=1):
        progress(f"{number} of {len(wanted)}: {one.title}")
        kind = kinds.get((one.group, one.name))
        if kind is None:
            # Not served: then there are none.
            found.listed.add(one.name)
        else:
            await _list(client, kind, one, found)
    # A name that several groups use is listed only if each of them was.
    found.listed -= found.refused.keys()
    for namespace, name in sorted(config_maps_of_stack(found.objects)):
        await _config_map(client, namespace, name, found)
    await _config_maps_of_guides(client, found)
    for group in METRICS_GROUPS:
        if group in served:
            found.metrics[group] = await _metrics(client, group)
    return found


async def _kinds(client: Client, groups: set[str]) -> dict[tuple[str, str], Kind]:
    """The kinds of these groups, each in the first version that has it, the preferred one before others."""
    found: dict[tuple[str, str], Kind] = {}
    for group in sorted(groups):
        for version in ("v1",) if not group else await client.versions(group):
            for kind in await client.kinds(group, version):
                found.setdefault((group, kind.name), kind)
    return found


async def _list(client: Client, kind: Kind, wanted: Wanted, found: Gathered) -> None:
    for last in (*[False] * (TRIES - 1), True):
        try:
            pages = client.list_pages(kind, selection=wanted.selection)
            items = [raw async for page in pages for raw in page.items or ()]
        # The server no longer has the version at which the first page was read, so the list begins anew.
        except Gone:
            if last:
                raise
        except (Forbidden, NotFound) as error:
            found.refused[kind.name] = error.message
            return
        else:
            found.objects += [manifest_of(kind, raw) for raw in items]
            found.listed.add(kind.name)
            return


async def _metrics(client: Client, group: str) -> frozenset[str] | None:
    """The names of the metrics of a group; None where the server behind it fails."""
    try:
        names = set()
        for version in await client.versions(group):
            names |= {kind.plural for kind in await _all_names(client, group, version)}
        return frozenset(names)
    except KubeError:
        return None


async def _all_names(client: Client, group: str, version: str) -> tuple[Kind, ...]:
    # Metrics are listed as "pods/NAME" or "jobs.batch/NAME", which to other readers are subresources.
    body = decode(await client.read(f"/apis/{group}/{version}"), msgspec.json.Decoder(_Resources))
    return tuple(Kind(group, version, one.name, "") for one in body.resources or ())


class _Resource(msgspec.Struct, frozen=True):
    name: str = ""


class _Resources(msgspec.Struct, frozen=True):
    resources: tuple[_Resource, ...] | None = None


async def _config_maps_of_guides(client: Client, found: Gathered) -> None:
    """Keep the ConfigMaps with names of NVIDIA's guides, in whichever namespace they were put."""
    known = {(one.namespace, one.name) for one in found.objects if one.kind == CONFIG_MAPS.name}
    try:
        for name in SOUGHT_NAMES:
            pages = client.list_pages(CONFIG_MAPS, selection=Selection(fields=f"metadata.name={name}"))
            items = [manifest_of(CONFIG_MAPS, raw) async for page in pages for raw in page.items or ()]
            found.objects += [one for one in items if (one.namespace, one.name) not in known]
    except Forbidden as error:
        found.refused[CONFIG_MAPS_OF_GUIDES] = error.message


async def _config_map(client: Client, namespace: str, name: str, found: Gathered) -> None:
    """Keep one ConfigMap; one that is not there is seen by its absence."""
    try:
        found.objects.append(
            manifest_of(CONFIG_MAPS, await client.get(CONFIG_MAPS, name, namespace=namespace))
        )
        found.listed.add(CONFIG_MAPS.name)
    except NotFound:
        found.listed.add(CONFIG_MAPS.name)
    except Forbidden as error:
        found.refused[CONFIG_MAPS.name] = error.message
