"""The answer to a what-if as a value; ``-o json`` writes it as it stands. Names are those of the API."""

import msgspec

SCHEMA = "gpufleet.io/whatif/v1"
"""A change that breaks readers of the JSON gets another version."""


class Ready(msgspec.Struct, frozen=True, rename="camel"):
    """Seconds from the start of the slowest of its pods until that is ready, by part; None is not known."""

    image_s: float | None
    data_s: float | None
    load_s: float | None


class Start(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """When and where work starts. ``in_s`` is counted from the moment of the picture, 0 is now.

    ``ready`` is there for work that names models or datasets.
    """

    in_s: float
    nodes: dict[str, int]
    ready: Ready | None = None


class Work(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A gang, the pods of one controller, or one pod: as many pods of it as one thing happens to.

    ``gpus`` is what each pod asks for: "2", "0.5", "8 or 1" where they differ, "" for none. ``before`` is
    when it would start without the
    changes, None where it would not. ``for_whom`` is the pod or gang that gets the place of what is evicted,
    ``again`` when that, or what is displaced, starts again, and ``waits_again`` how many of it do not;
    ``why`` is why it waits.
    """

    kind: str
    namespace: str
    name: str
    pods: int
    queue: str = ""
    gpus: str = ""
    submitted: bool = False
    start: Start | None = None
    before: Start | None = None
    for_whom: str = ""
    again: Start | None = None
    waits_again: int = 0
    why: str = ""

    @property
    def title(self) -> str:
        """The work as people call it: "job team-a/train"."""
        return f"{self.kind} {self.namespace}/{self.name}"


class QueueChange(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What changes for a queue of one resource, at once; amounts as quotas are written."""

    queue: str
    resource: str
    used_before: str
    used_after: str
    nominal_before: str
    nominal_after: str


class Answer(msgspec.Struct, frozen=True, rename="camel"):
    """What the changes would bring, against the same cluster without them.

    ``starts`` would not start without them, or later; ``evicted`` would not be evicted, ``delayed`` would
    start, or start earlier, ``spared`` would be evicted. ``displaced`` must leave its node, ``lost`` ends for
    good with it. ``waits`` is what still waits when nothing more follows, that which is named before too;
    ``waits_more`` counts pods that are not listed there.
    """

    schema: str
    at: str
    changes: tuple[str, ...]
    starts: tuple[Work, ...]
    evicted: tuple[Work, ...]
    displaced: tuple[Work, ...]
    delayed: tuple[Work, ...]
    spared: tuple[Work, ...]
    lost: tuple[Work, ...]
    waits: tuple[Work, ...]
    waits_more: int
    waiting_pods_before: int
    waiting_pods_after: int
    queues: tuple[QueueChange, ...]
    notes: tuple[str, ...]
