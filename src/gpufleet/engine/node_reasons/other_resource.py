"""Too little of a resource by name is free on the node: huge pages, network cards, MIG instances."""

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.free_room import FreeRoom, PlacedPod
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.engine.node_reasons.room_words import when_they_end
from gpufleet.model.model_errors import printable
from gpufleet.model.phrases import counted, harmless, listed

BIT = 1 << 18
END_THEM = "end what holds instances there that no pod asked for"


def finding(case: Case) -> Finding:
    """Which resource is short, and how much of it is left."""
    lacking = [
        (name, amount)
        for name, amount in case.shape.resources.other
        if all(room.amount(name) < amount for room in case.near_rooms)
    ] or list(case.shape.resources.other)
    name, asked = lacking[0]
    # A node that never had the resource comes no nearer when work on it ends.
    rooms = [room for room in case.near_rooms if _offered(room, name)] or case.near_rooms
    best = max(rooms, key=lambda room: (room.amount(name), _offered(room, name)))
    foreign = _in_foreign_hands(case, name)
    largest = max(_offered(room, name) for room in rooms)
    if largest < asked:
        most = f"the most that a node that would do offers is {largest}"
        why = f"it needs {asked} of {harmless(name)}, and {most}"
        if foreign:
            return Finding(why + _held_words(foreign), (END_THEM,))
        return Finding(
            why, (f"ask for at most {largest} of {harmless(name)}",) if largest else _offering(case, name)
        )
    left = max(0, best.amount(name))
    best = min(
        (room for room in rooms if room.amount(name) == best.amount(name) and _offered(room, name) >= asked),
        key=lambda room: room.node.name,
        default=best,
    )
    why = f"it needs {asked} of {harmless(name)}, and {best.node.name} has the most left, {left}"

    def weight(one: PlacedPod) -> int:
        return dict(one.pod.shape.resources.other).get(name, 0)

    ends = when_they_end(best, weight, asked - left)
    ways = (ends or f"wait until {harmless(name)} comes free",)
    return Finding(why + _held_words(foreign), (*ways, END_THEM)) if foreign else Finding(why, ways)


def _offered(room: FreeRoom, name: str) -> int:
    """What a node has of the resource in all."""
    return dict(room.node.allocatable.other).get(name, 0)


def _in_foreign_hands(case: Case, name: str) -> list[str]:
    """The instances of this resource on the nodes in question which no pod's request is charged for."""
    return [
        # The words are free text from a report and may hold anything.
        f"{harmless(device)} on {node.name}" + (f" ({printable(words)})" if words else "")
        for node in case.near
        for device, words in case.details.uncounted_instances(node.name, name)
    ]


def _held_words(foreign: list[str]) -> str:
    verb = "is" if len(foreign) == 1 else "are"
    return f"; {counted(len(foreign), 'instance')} {verb} in foreign hands: {listed(dict.fromkeys(foreign))}"


def _offering(case: Case, name: str) -> tuple[str, ...]:
    """Where the resource is."""
    offering = [node.name for node in case.nodes if dict(node.allocatable.other).get(name)]
    return (f"{harmless(name)} is offered by {listed(offering)}; let the pod run there",)


REASON = NodeReason(
    "other-resource",
    BIT,
    height=1,
    kind=Kind.ROOM,
    words="short of another resource",
    finding=finding,
)
