"""What is asked: the changes, as values, from the words on the command line."""

import msgspec

from gpufleet.model.model_errors import InputError
from gpufleet.model.taint import Taint

ADD_NODES = "--add-nodes"
REMOVE_NODE = "--remove-node"
REMOVE_POOL = "--remove-pool"
SET_QUOTA = "--set-quota"
NODES_EXPECTED = "COUNT, COUNT:like=NODE or COUNT:gpus=8,model=H100-80GB, such as 2:like=gpu-1"
QUOTA_EXPECTED = "QUEUE.RESOURCE=VALUE, such as team-a.gpu=16 or team-a.gpu.borrowing=none"
# More than the largest clusters and machines have: a larger number is a mistake in typing.
NODES_MAX = 10_000
GPUS_MAX = 64
NODE_KEYS = ("like", "gpus", "model", "cpu", "memory", "sharing")


class AddNodes(msgspec.Struct, frozen=True):
    """A number of nodes, like a given one (``like``) or as described (``gpus``, ``model``); without either,
    like the most frequent nodes with GPUs. ``text`` is how it was written. Described nodes may
    have ``labels``, ``taints`` and ``amounts`` of further resources besides, and ``name`` is how their names
    begin.
    """

    text: str
    count: int
    like: str = ""
    gpus: int | None = None
    model: str = ""
    cpu: str = ""
    memory: str = ""
    sharing: str = "whole"
    labels: tuple[tuple[str, str], ...] = ()
    name: str = "new"
    taints: tuple[Taint, ...] = ()
    amounts: tuple[tuple[str, str], ...] = ()


class SetQuota(msgspec.Struct, frozen=True):
    """A quota in place of another; ``path`` is queue and resource, which only the queues take apart."""

    text: str
    path: str
    value: str


class Submitted(msgspec.Struct, frozen=True):
    """A file of work: its name, and what is in it."""

    name: str
    content: bytes


class Request(msgspec.Struct, frozen=True):
    """All changes, which are made together."""

    add_nodes: tuple[AddNodes, ...] = ()
    remove_nodes: tuple[str, ...] = ()
    set_quotas: tuple[SetQuota, ...] = ()
    submit: tuple[Submitted, ...] = ()
    namespace: str = "default"
    remove_pools: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """True if nothing shall change."""
        less = self.remove_nodes or self.remove_pools
        return not (self.add_nodes or less or self.set_quotas or self.submit)


def read_add_nodes(text: str) -> AddNodes:
    """``2``, ``2:like=gpu-1`` or ``2:gpus=8,model=H100-80GB``. Raises InputError."""
    head, colon, rest = text.partition(":")
    count = _count(head, text, NODES_MAX)
    given: dict[str, str] = {}
    for part in rest.split(",") if colon else ():
        key, equals, value = part.partition("=")
        if not equals or not value or key not in NODE_KEYS:
            known = ", ".join(f"{one}=" for one in NODE_KEYS)
            raise InputError("not a node", field=ADD_NODES, value=part or text, expected=known)
        if key in given:
            raise InputError(f"{key} twice", field=ADD_NODES, value=text, expected="each once")
        given[key] = value
    if "like" in given and len(given) > 1:
        raise InputError("like= and more", field=ADD_NODES, value=text, expected="like= alone, or gpus=")
    if given and "like" not in given and "gpus" not in given:
        raise InputError("no GPUs", field=ADD_NODES, value=text, expected="gpus= (0 for none) or like=")
    gpus = _count(given["gpus"], text, GPUS_MAX, least=0) if "gpus" in given else None
    if gpus and "model" not in given:
        raise InputError("GPUs without a model", field=ADD_NODES, value=text, expected="model=H100-80GB")
    return AddNodes(
        text,
        count,
        given.get("like", ""),
        gpus,
        given.get("model", ""),
        given.get("cpu", ""),
        given.get("memory", ""),
        given.get("sharing", "whole"),
    )


def _count(written: str, text: str, most: int, *, least: int = 1) -> int:
    number = int(written) if written.isascii() and written.isdecimal() and len(written) < 9 else -1
    if not least <= number <= most:
        expected = f"a number from {least} to {most}, as in {NODES_EXPECTED}"
        raise InputError("not a number of that", field=ADD_NODES, value=text, expected=expected)
    return number


def read_set_quota(text: str) -> SetQuota:
    """``QUEUE.RESOURCE=VALUE``. Raises InputError."""
    path, equals, value = text.rpartition("=")
    if not equals or not value or "." not in path:
        raise InputError("not a quota", field=SET_QUOTA, value=text, expected=QUOTA_EXPECTED)
    return SetQuota(text, path, value)
