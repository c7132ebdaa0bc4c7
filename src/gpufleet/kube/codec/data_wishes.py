"""Which models and datasets shall be on a node before work starts there, as the annotation of its NodeData.

The scheduler writes names and nothing else: where a copy comes from and where it goes is set for the node's
agent by its platform, so no word of a pod becomes a path, an address or a command on a node.
"""

from collections.abc import Iterable, Mapping

import msgspec

from gpufleet.kube import keys
from gpufleet.kube.codec.data_needs import read_ask
from gpufleet.kube.meanings.image_names import whole_image_name
from gpufleet.model.data import DataAsk
from gpufleet.model.model_errors import InputError

NAMES_MAX = 32
"""Names of each list: more than starts on a node at once, and it bounds the annotation."""

KEEP_MAX = 128
"""Names that stay; where more do, all that is on the node stays, so that none of them is left out."""

LENGTH_MAX = 128 << 10
"""What is read of the annotation at most."""


class DataWish(msgspec.Struct, frozen=True):
    """``stage`` is to be copied to the node, the first first; what ``keep`` names stays there. ``images``, by
    their whole names, are to be pulled. ``keep_all`` says that more is to stay than is named.
    """

    stage: tuple[DataAsk, ...] = ()
    keep: tuple[DataAsk, ...] = ()
    images: tuple[str, ...] = ()
    keep_all: bool = False


class _Written(msgspec.Struct, frozen=True, omit_defaults=True):
    stage: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    keep_all: bool = False


NO_WISH = DataWish()
_DECODER = msgspec.json.Decoder(_Written)
_ENCODER = msgspec.json.Encoder()


def write_wish(wish: DataWish) -> str:
    """The annotation; "" for a node of which nothing is wanted."""
    if wish == NO_WISH:
        return ""
    keep = tuple(dict.fromkeys(str(one) for one in wish.keep))
    keep_all = wish.keep_all or len(keep) > KEEP_MAX
    written = _Written(_names(wish.stage), keep[:KEEP_MAX], wish.images[:NAMES_MAX], keep_all)
    return _ENCODER.encode(written).decode()


def read_wish(annotations: Mapping[str, str]) -> DataWish:
    """What the annotation says. Raises InputError for what is not of its form."""
    text = annotations.get(keys.DATA_WANTED)
    if not text:
        return NO_WISH
    field = f"metadata.annotations[{keys.DATA_WANTED}]"
    if len(text) > LENGTH_MAX:
        expected = f"at most {LENGTH_MAX} characters"
        raise InputError("too long", field=field, value=text[:80], expected=expected)
    try:
        found = _DECODER.decode(text)
    except msgspec.DecodeError as error:
        raise InputError(
            str(error), field=field, value=text[:80], expected="what the scheduler writes"
        ) from error
    images = tuple(_image(one, field) for one in found.images)[:NAMES_MAX]
    keep = tuple(read_ask(one, field) for one in found.keep)
    keep_all = found.keep_all or len(keep) > KEEP_MAX
    return DataWish(_asks(found.stage, field), keep[:KEEP_MAX], images, keep_all)


def _names(asks: Iterable[DataAsk]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(one) for one in asks))[:NAMES_MAX]


def _asks(names: Iterable[str], field: str) -> tuple[DataAsk, ...]:
    return tuple(read_ask(one, field) for one in names)[:NAMES_MAX]


def _image(name: str, field: str) -> str:
    """A name of an image that is whole. Raises InputError."""
    whole = whole_image_name(name)
    if whole is None or name not in (whole[0], f"{whole[0]}@{whole[1]}"):
        expected = "HOST/NAME:TAG, or HOST/NAME@sha256:DIGEST"
        raise InputError("not a whole name of an image", field=field, value=name[:80], expected=expected)
    return name
