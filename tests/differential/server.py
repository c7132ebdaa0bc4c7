"""A real control plane made ready for cases, and how their objects get there.

Nodes have no kubelets and pods no accounts, so the controllers and admission plugins that would look
after these are off: nothing but the volume controller changes what a case says.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gpufleet.kube import resources
from gpufleet.kube.client import Client
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.following_access import find_access
from gpufleet.kube.http_transport import HttpTransport
from gpufleet.kube.resources import Kind
from gpufleet.kube.status import StatusError
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.localkube.programs.releases import minor_version
from tests.differential.builder import NAMESPACES
from tests.differential.cases import Case, Manifest, name_of, namespace_of, path_of
from tests.differential.preemption.classes import priority_classes
from tests.differential.themes.storage import COUNTED_DRIVER, DISK_DRIVER, STORAGE_API, STRICT_DRIVER
from tests.localkube.cluster import KUBERNETES, a_cluster

WRITES_AT_ONCE = 48
SETTLE_WAIT_S = 300.0
POLL_EVERY_S = 0.5
CONTROLLERS = "persistentvolume-binder-controller,ephemeral-volume-controller,serviceaccount-controller"
QUICK = ("--kube-api-qps=2000", "--kube-api-burst=4000")
GATES: Mapping[str, tuple[int, int]] = {
    # Off by default; the first version of Kubernetes in which pods can say it.
    "TaintTolerationComparisonOperators": (1, 35),
    "UserNamespacesHostNetworkSupport": (1, 36),
    "VolumeBindMountOptions": (1, 37),
}

RUNTIME_CLASSES = Kind("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
KINDS = (
    # In the order of creation: who is spoken of comes before who speaks of it.
    resources.NAMESPACES,
    resources.PRIORITY_CLASSES,
    RUNTIME_CLASSES,
    resources.CSI_DRIVERS,
    resources.STORAGE_CLASSES,
    resources.NODES,
    resources.CSI_NODES,
    resources.PERSISTENT_VOLUMES,
    resources.PERSISTENT_VOLUME_CLAIMS,
    resources.CSI_STORAGE_CAPACITIES,
    resources.VOLUME_ATTACHMENTS,
    resources.POD_DISRUPTION_BUDGETS,
    resources.PODS,
)
KIND_OF = {kind.name: kind for kind in KINDS}


def gates() -> dict[str, bool]:
    """The gates that the version under test knows and that cases need."""
    here = minor_version(KUBERNETES)
    return {gate: True for gate, since in GATES.items() if here >= since}


@contextlib.contextmanager
def control_plane(folder: Path) -> Iterator[LocalCluster]:
    """A control plane without anybody who schedules."""
    flags = {
        "kube-apiserver": ("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",),
        "kube-controller-manager": (f"--controllers={CONTROLLERS}", *QUICK),
    }
    options = Options(KUBERNETES, feature_gates=gates(), flags=flags, simulated_nodes=False)
    with a_cluster(folder, "differential", options) as running:
        yield running


@contextlib.asynccontextmanager
async def client_of(cluster: LocalCluster) -> AsyncIterator[Client]:
    """The administrator's client."""
    transport = HttpTransport(find_access(kubeconfig=cluster.kubeconfig, environment={}))
    try:
        yield Client(transport, MachineClock(), random.Random(1))
    finally:
        await transport.close()


def furniture() -> list[Manifest]:
    """What all cases share: namespaces, classes of pods, drivers."""

    def of_kind(kind: Kind, name: str, **rest: object) -> Manifest:
        return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}, **rest}

    found = [of_kind(resources.NAMESPACES, name) for name in NAMESPACES]
    for one in found:
        one["metadata"]["labels"] = NAMESPACES[name_of(one)]
    return [
        *found,
        # Without a class of its own a pod has no pod evicted: what is asked then is where it fits.
        of_kind(
            resources.PRIORITY_CLASSES, "peaceful", value=0, globalDefault=True, preemptionPolicy="Never"
        ),
        *priority_classes(),
        of_kind(
            RUNTIME_CLASSES,
            "heavy",
            handler="heavy",
            overhead={"podFixed": {"cpu": "250m", "memory": "200Mi"}},
        ),
        of_kind(
            RUNTIME_CLASSES,
            "picky",
            handler="picky",
            overhead={"podFixed": {"memory": "64Mi"}},
            scheduling={"nodeSelector": {"runtime": "picky"}, "tolerations": [{"operator": "Exists"}]},
        ),
        _driver(DISK_DRIVER, counts=False),
        _driver(COUNTED_DRIVER, counts=True),
        _driver(STRICT_DRIVER, counts=False, strict=True),
    ]


def _driver(name: str, *, counts: bool, strict: bool = False) -> Manifest:
    spec = {"attachRequired": True, "storageCapacity": counts}
    return {
        "apiVersion": STORAGE_API,
        "kind": "CSIDriver",
        "metadata": {"name": name},
        "spec": spec | ({"preventPodSchedulingIfMissing": True} if strict else {}),
    }


@dataclass(frozen=True)
class Refusal:
    """An object that the server did not let in, and why."""

    manifest: Manifest
    said: str

    def __str__(self) -> str:
        """For whoever made it."""
        return f"{self.said}\n{msgspec.yaml.encode(self.manifest).decode()}"


async def create(client: Client, manifests: Iterable[Manifest]) -> None:
    """Create objects, all of which the server must let in: a generator makes only what can be."""
    refusals = await create_what_can_be(client, manifests)
    if refusals:
        first = "\n".join(str(one) for one in refusals[:5])
        raise AssertionError(f"the server refused {len(refusals)} objects\n{first}")


async def create_what_can_be(client: Client, manifests: Iterable[Manifest]) -> list[Refusal]:
    """Create objects, kind after kind, and make each what it shall be; those that were refused."""
    by_kind: dict[str, list[Manifest]] = {}
    for one in manifests:
        by_kind.setdefault(one["kind"], []).append(one)
    turns = asyncio.Semaphore(WRITES_AT_ONCE)
    refusals: list[Refusal] = []

    async def one_of(kind: Kind, manifest: Manifest) -> None:
        async with turns:
            try:
                await _create(client, kind, manifest)
            except StatusError as refusal:
                refusals.append(Refusal(manifest, str(refusal)))

    for kind in KINDS:
        async with asyncio.TaskGroup() as group:
            for one in by_kind.get(kind.name, ()):
                group.create_task(one_of(kind, one))
    return refusals


async def _create(client: Client, kind: Kind, manifest: Manifest) -> None:
    name, namespace = name_of(manifest), namespace_of(manifest)
    metadata = {key: value for key, value in manifest["metadata"].items() if key != "deletionTimestamp"}
    body = {**manifest, "metadata": metadata}
    status = manifest.get("status")
    if kind not in {resources.NODES, resources.VOLUME_ATTACHMENTS}:
        body.pop("status", None)
    await client.create(kind, body, name=name, namespace=namespace)
    if kind in {resources.PODS, resources.POD_DISRUPTION_BUDGETS} and status is not None:
        await client.patch(kind, name, {"status": status}, namespace=namespace, subresource="status")
    if "deletionTimestamp" in manifest["metadata"]:
        await client.delete(kind, name, namespace=namespace)


def _own_claims(manifest: Manifest) -> list[str]:
    """The claims that are made for volumes of a pod's own."""
    volumes = manifest["spec"].get("volumes", ()) if manifest["kind"] == "Pod" else ()
    return [f"{path_of(manifest)}-{one['name']}" for one in volumes if "ephemeral" in one]


class _Phase(msgspec.Struct, frozen=True):
    phase: str = ""


class _Name(msgspec.Struct, frozen=True):
    name: str
    namespace: str = ""


class _Storage(msgspec.Struct, frozen=True):
    """A claim or volume as far as its controller has come."""

    metadata: _Name
    status: _Phase = _Phase()


_STORAGE = msgspec.json.Decoder(_Storage)


async def settle(client: Client, cases: Collection[Case]) -> None:
    """Wait until the volume controller has done with every claim and volume."""
    wanted = {
        (one["kind"], path_of(one)): one["status"]["phase"]
        for case in cases
        for one in case.objects
        if one["kind"] in {"PersistentVolume", "PersistentVolumeClaim"}
    }
    for case in cases:
        for pod in (*case.objects, *case.asked):
            for claim in _own_claims(pod):
                wanted["PersistentVolumeClaim", claim] = "Pending"
    left = dict(wanted)
    try:
        async with asyncio.timeout(SETTLE_WAIT_S):
            while left := await _unsettled(client, wanted):  # noqa: ASYNC110  (another process works)
                await asyncio.sleep(POLL_EVERY_S)
    except TimeoutError:
        raise AssertionError(f"not as the cases say after {SETTLE_WAIT_S:.0f} s: {left}") from None


async def _unsettled(client: Client, wanted: Mapping[tuple[str, str], str]) -> dict[tuple[str, str], str]:
    """What is not in the phase it shall be in, with that phase."""
    found: dict[tuple[str, str], str] = {}
    for kind in (resources.PERSISTENT_VOLUMES, resources.PERSISTENT_VOLUME_CLAIMS):
        async for page in client.list_pages(kind):
            for raw in page.items or ():
                one = _STORAGE.decode(raw)
                found[kind.name, f"{one.metadata.namespace}/{one.metadata.name}"] = one.status.phase
    return {key: phase for key, phase in wanted.items() if found.get(key) != phase}
