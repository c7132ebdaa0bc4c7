"""Samples of pods from the tracks of devices, and what was left out because it cannot be told apart.

Pure. A pod's own use is known where it has its GPUs to itself; of GPUs that several pods hold, and of cards
that are cut, the readings are not those of one pod, so they are left out and the notes say so. Nothing is
guessed.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations

import msgspec

from gpufleet.model.gpu_model import find
from gpufleet.usage.measured_cards import Card, Host
from gpufleet.usage.prometheus.labels import NoPod, PodName
from gpufleet.usage.prometheus.owners import Owners, PodOwner
from gpufleet.usage.prometheus.tracks import DeviceTracks, Track, Tracks
from gpufleet.usage.samples import GPUS_MAX, Sample

WHOLE_GPU = "nvidia_com_gpu"
NAMES_SHOWN = 3
"""A note names examples, not all."""

OVERSOLD = (
    "ran on nodes that offer more GPUs than were measured there: cards are shared under the plain name, or"
    " are not told of, so the use cannot be told apart; left out"
)
SHARED = "held a GPU together with other pods; what they used then is left out"


class GpuUse(msgspec.Struct, frozen=True):
    """What pods used, the GPUs that they may be placed on, the nodes of these as far as known, and notes."""

    samples: tuple[Sample, ...]
    cards: tuple[Card, ...]
    hosts: Mapping[str, Host]
    notes: tuple[str, ...]


class KnownPods(msgspec.Struct, frozen=True):
    """What kube-state-metrics tells: what pods ask of GPUs, by resource, and of their nodes, what owns them,
    and what nodes have.
    """

    requests: Mapping[PodName, Mapping[str, int]]
    host_requests: Mapping[PodName, Host]
    owners: Owners
    hosts: Mapping[str, Host]
    gpus_offered: Mapping[str, int] = {}
    """How many GPUs a node offers under their plain name; more than it has where they are shared under it."""


class _PodTrack(msgspec.Struct):
    """One pod over all its GPUs: of each instant the highest use and memory, and how many GPUs told it."""

    models: set[str] = set()
    hosts: set[str] = set()
    use_milli: dict[int, int] = {}
    memory_mib: dict[int, int] = {}
    gpus: Counter[int] = msgspec.field(default_factory=Counter)
    cards: set[str] = set()


class _Notes:
    """Collects pods by what is said of them."""

    def __init__(self) -> None:
        self._pods: dict[str, set[str]] = {}

    def add(self, reason: str, pod: object) -> None:
        self._pods.setdefault(reason, set()).add(str(pod))

    def has(self, reason: str, pod: object) -> bool:
        return str(pod) in self._pods.get(reason, ())

    def lines(self) -> tuple[str, ...]:
        return tuple(f"{_named(names)} {reason}" for reason, names in self._pods.items())


def judge(tracks: Tracks, known: KnownPods, step_s: int, namespaces: Collection[str] = ()) -> GpuUse:
    """All that can be said; ``namespaces`` keeps the pods of these alone."""
    notes = _Notes()
    pods: dict[PodName, _PodTrack] = {}
    cut = {one.device.uuid for one in tracks.devices.values() if one.device.instance}
    for one in tracks.devices.values():
        if one.device.uuid in cut:
            for holder in _wanted(one.holders, namespaces):
                notes.add("run on parts of cards that are cut (MIG), which are not judged", holder)
        else:
            _read_device(one, pods, notes, namespaces)
    oversold = _oversold(tracks, known.gpus_offered)
    samples: list[Sample] = []
    judged: set[str] = set()
    names = _workload_names(pods, known.owners)
    for pod, track in sorted(pods.items()):
        # Pods there may share a GPU that its series name for one of them alone.
        if oversold & track.hosts:
            notes.add(OVERSOLD, pod)
            continue
        found = _samples(pod, track, names[pod], known, step_s, notes)
        samples += found
        if found:
            judged |= track.cards
    _note_silent(pods, tracks, known, namespaces, notes)
    cards = _cards(tracks, cut, judged, notes)
    lines = notes.lines()
    if tracks.impossible_count:
        lines += (f"{tracks.impossible_count} readings that no GPU can have are left out",)
    hosts = {card.host: known.hosts[card.host] for card in cards if card.host in known.hosts}
    return GpuUse(tuple(samples), cards, hosts, lines)


def _wanted(holders: Iterable[PodName | NoPod], namespaces: Collection[str]) -> list[PodName]:
    return [
        one for one in holders if isinstance(one, PodName) and (not namespaces or one.namespace in namespaces)
    ]


def _read_device(
    tracks: DeviceTracks, pods: dict[PodName, _PodTrack], notes: _Notes, namespaces: Collection[str]
) -> None:
    """What a pod used at each instant at which it alone held the device."""
    device, holders = tracks.device, tracks.holders
    if NoPod.UNSURE in holders and not any(isinstance(one, PodName) for one in holders):
        notes.add(
            "have a label pod that may be the exporter's own or the holder's: no series up tells", device.uuid
        )
    many = _shared_instants({pod: track for pod, track in holders.items() if isinstance(pod, PodName)})
    for pod in _wanted(holders, namespaces):
        track = holders[pod]
        if any(not handover for instant, handover in many.items() if instant in track.instants):
            notes.add(SHARED, pod)
        into = pods.setdefault(pod, _PodTrack())
        into.models.add(device.model)
        into.hosts.add(device.host)
        into.cards.add(device.uuid)
        for instant, milli in track.use_milli.items():
            # A reading of a device that several pods hold is of none of them alone.
            if instant in many:
                continue
            into.gpus[instant] += 1
            into.use_milli[instant] = max(into.use_milli.get(instant, 0), milli)
            if instant in track.memory_mib:
                into.memory_mib[instant] = max(into.memory_mib.get(instant, 0), track.memory_mib[instant])


def _shared_instants(holders: Mapping[PodName, Track]) -> dict[int, bool]:
    """The instants at which several pods held a device; True where one ended and another began."""
    if len(holders) < 2:
        return {}
    spans = {pod: track.instants for pod, track in holders.items() if track.instants}
    ends = {pod: (min(each), max(each)) for pod, each in spans.items()}
    counts = Counter(instant for each in spans.values() for instant in each)
    return {
        instant: _is_handover(instant, [ends[pod] for pod, each in spans.items() if instant in each])
        for instant, count in counts.items()
        if count > 1
    }


def _is_handover(instant: int, spans: Sequence[tuple[int, int]]) -> bool:
    """Whether of any two spans one ended at the instant and the other began."""
    return all(
        one != other and (one[1] == other[0] == instant or other[1] == one[0] == instant)
        for one, other in combinations(spans, 2)
    )


def _workload_names(pods: Iterable[PodName], owners: Owners) -> dict[PodName, str]:
    """The workload of each pod; with its kind where two kinds of one namespace have that name."""
    found = {pod: owners.owner(pod) for pod in pods}
    kinds: dict[tuple[str, str], set[str]] = {}
    for pod, owner in found.items():
        kinds.setdefault((pod.namespace, owner.name), set()).add(owner.kind)
    return {pod: _name(owner, len(kinds[pod.namespace, owner.name]) > 1) for pod, owner in found.items()}


def _name(owner: PodOwner, has_namesakes: bool) -> str:
    return f"{owner.name} ({owner.kind or 'unknown owner'})" if has_namesakes else owner.name


def _oversold(tracks: Tracks, gpus_offered: Mapping[str, int]) -> set[str]:
    """The nodes that offer more GPUs than they have, which is time-slicing or MPS under the plain name."""
    cards: dict[str, set[str]] = {}
    for one in tracks.devices.values():
        cards.setdefault(one.device.host, set()).add(one.device.uuid)
    return {host for host, found in cards.items() if gpus_offered.get(host, 0) > len(found)}


def _samples(
    pod: PodName, track: _PodTrack, workload: str, known: KnownPods, step_s: int, notes: _Notes
) -> list[Sample]:
    """One for each instant at which both use and memory are known; none if the pod cannot be judged."""
    asked, of_host = known.requests.get(pod, {}), known.host_requests.get(pod, Host())
    shares = sorted(name for name in asked if name != WHOLE_GPU)
    models = {None if (model := find(name)) is None else str(model.name) for name in track.models}
    gpus = asked.get(WHOLE_GPU) or max(track.gpus.values(), default=0)
    reason = ""
    if shares:
        reason = f"ask for {shares[0]}, a part of a GPU already, and are left out"
    elif not track.use_milli:
        reason = "were never seen alone on a GPU with a reading of DCGM_FI_DEV_GPU_UTIL, and are left out"
    elif not track.memory_mib:
        reason = "have no reading of DCGM_FI_DEV_FB_USED, so their need of memory is not known: left out"
    elif None in models or len(models) > 1:
        reason = f"ran on GPUs that are not one known model ({', '.join(sorted(track.models))}): left out"
    elif "" in track.hosts:
        reason = "ran on GPUs without a label Hostname or hostname: left out"
    elif gpus > GPUS_MAX:
        reason = f"are said to hold more than {GPUS_MAX} GPUs: left out"
    if reason:
        # A pod that always shared its GPU was told so already.
        if track.use_milli or not notes.has(SHARED, pod):
            notes.add(reason, pod)
        return []
    return [
        Sample(
            workload,
            pod.name,
            instant * step_s,
            milli,
            track.memory_mib[instant],
            gpus,
            gpu_model=str(next(iter(models))),
            node=min(track.hosts),
            cpu_milli=of_host.cpu_milli,
            host_memory_mib=of_host.memory_mib,
            namespace=pod.namespace,
        )
        for instant, milli in sorted(track.use_milli.items())
        if instant in track.memory_mib
    ]


def _note_silent(
    pods: Collection[PodName], tracks: Tracks, known: KnownPods, namespaces: Collection[str], notes: _Notes
) -> None:
    """Pods that ask for whole GPUs and stand on no series at all."""
    seen = {holder for one in tracks.devices.values() for holder in one.holders}
    for pod in _wanted(known.requests, namespaces):
        if known.requests[pod].get(WHOLE_GPU) and pod not in pods and pod not in seen:
            notes.add(
                "ask for GPUs and no series names them: they waited, or the exporter names no pods", pod
            )


def _cards(tracks: Tracks, cut: Collection[str], judged: Collection[str], notes: _Notes) -> tuple[Card, ...]:
    """The cards of each node at the instant at which it had most."""
    by_host: dict[str, list[tuple[Card, set[int]]]] = {}
    for one in tracks.devices.values():
        device = one.device
        model, index = find(device.model), device.index
        if model is None or not device.host or not index.isdecimal() or int(index[:9]) >= GPUS_MAX:
            notes.add("have no model, host or index that is known, and count as no room", device.uuid)
            continue
        # A GPU is room where no pod holds it, or where all that do are judged.
        held = any(isinstance(holder, PodName) for holder in one.holders)
        is_free = device.uuid not in cut and (device.uuid in judged or not held)
        if not is_free:
            notes.add("have cards that are not judged; add those to the configuration below", device.host)
        instants = {instant for track in one.holders.values() for instant in track.instants}
        card = Card(device.host, int(index[:9]), str(model.name), is_free)
        by_host.setdefault(device.host, []).append((card, instants))
    found: list[Card] = []
    for cards in by_host.values():
        counts = Counter(instant for _, instants in cards for instant in instants)
        # At one instant, and the latest of equal ones: a card that was replaced must not count twice.
        most = max(counts, key=lambda instant: (counts[instant], instant), default=None)
        found += {card for card, instants in cards if most in instants}
    return tuple(sorted(found))


def _named(names: Collection[str]) -> str:
    shown = sorted(names)[:NAMES_SHOWN]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
