"""Reads what is known of an image from disk: an OCI layout, an archive of OCI or docker, or a JSON file.

The JSON is an image's configuration, or what `docker inspect` prints. From an index with several platforms
the one asked for is taken, and what a digest names must have that digest. No registry is asked: an image
that is only named is judged by its name.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from gpufleet.advise.cuda.image_store import MAXIMUM_BYTES, Archive, Folder, Store
from gpufleet.cuda.image import ImageFacts
from gpufleet.files.regular import read_beginning, read_regular
from gpufleet.model.model_errors import InputError

INDEX = "index.json"
MANIFEST = "manifest.json"
NAME_ANNOTATIONS = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
_DEEPEST = 4
"""An index may name an index; this bound ends a circle of them."""

Kind = TypeVar("Kind")


class Platform(msgspec.Struct, frozen=True):
    """What a manifest is for."""

    architecture: str = ""
    os: str = ""

    def __str__(self) -> str:
        return f"{self.os}/{self.architecture}"


class Descriptor(msgspec.Struct, frozen=True):
    """A pointer of OCI to another file."""

    digest: str
    mediaType: str = ""  # noqa: N815  as in the file
    platform: Platform | None = None
    annotations: dict[str, str] | None = None


class Index(msgspec.Struct, frozen=True):
    """An index of OCI: manifests or more indexes."""

    manifests: list[Descriptor]


class Manifest(msgspec.Struct, frozen=True):
    """A manifest of OCI, as far as we read it."""

    config: Descriptor


class Saved(msgspec.Struct, frozen=True):
    """One image in the manifest.json of docker save."""

    Config: str
    RepoTags: list[str] | None = None


class Settings(msgspec.Struct, frozen=True):
    """How containers of the image start."""

    Env: list[str] | None = None
    Labels: dict[str, str] | None = None


class ImageStep(msgspec.Struct, frozen=True):
    """How one layer was made."""

    created_by: str = ""


class Configuration(msgspec.Struct, frozen=True):
    """An image's configuration."""

    config: Settings | None = None
    history: list[ImageStep] | None = None
    architecture: str = ""
    os: str = ""


class Inspected(msgspec.Struct, frozen=True):
    """One image as `docker inspect` prints it."""

    Config: Settings
    RepoTags: list[str] | None = None


def find_image(text: str, *, tag: str | None, platform: str) -> ImageFacts:
    """The image at a path, or the one of that name if no file of that name is there."""
    if not text:
        raise InputError("names no image", field="image", value="", expected="a name or a path")
    path = Path(text)
    if path.is_dir():
        return _saved(Folder(path), f"the layout {text}", tag, platform)
    if not path.exists():
        _refuse_misspelt_path(text)
        return ImageFacts(text)
    if _begins_as_json(path):
        return read_json(path)
    archive = Archive(path)
    try:
        return _saved(archive, f"the archive {text}", tag, platform)
    finally:
        archive.close()


def read_json(path: Path) -> ImageFacts:
    """An image's configuration, or what `docker inspect` printed."""
    where = str(path)
    content = read_regular(path, MAXIMUM_BYTES)
    # An image's configuration is an object, and what `docker inspect` prints is a list.
    document = _decode(content, where, "", Any)
    if isinstance(document, list):
        found = _decode(content, where, "", list[Inspected])
        if len(found) != 1:
            raise InputError(f"{len(found)} images", where=where, expected="one; inspect one at a time")
        tags = found[0].RepoTags or [where]
        return _facts(tags[0], f"the file {where}", found[0].Config, ())
    return _from_configuration(where, f"the file {where}", _decode(content, where, "", Configuration))


def _saved(store: Store, source: str, tag: str | None, platform: str) -> ImageFacts:
    """The one image in a layout or an archive, of whichever kind."""
    index = store.read(INDEX)
    if index is not None:
        return _from_layout(store, source, _decode(index, source, INDEX, Index), tag, platform)
    manifest = store.read(MANIFEST)
    if manifest is None:
        raise InputError("no image", where=source, expected=f"{INDEX} or {MANIFEST} in it")
    saved = _decode(manifest, source, MANIFEST, list[Saved])
    chosen = [one for one in saved if tag is None or tag in (one.RepoTags or ())]
    names = [name for one in saved for name in one.RepoTags or ["without a name"]]
    one = _only(chosen, names, source)
    content = _must_read(store, one.Config, source)
    name = tag or next(iter(one.RepoTags or ()), source)
    return _from_configuration(name, source, _decode(content, source, one.Config, Configuration))


def _from_layout(store: Store, source: str, index: Index, tag: str | None, platform: str) -> ImageFacts:
    """Follow an index to the manifest of a platform, and that to the configuration."""
    named = [one for one in index.manifests if tag is None or tag in _names(one)]
    name = tag or next((name for one in named for name in _names(one)), source)
    if tag is not None and not named:
        raise _only_error([name for one in index.manifests for name in _names(one)], source)
    # An index may lead to another one.
    for _ in range(_DEEPEST):
        chosen = _for_platform(named, platform, source)
        document = _decode(_blob(store, chosen.digest, source), source, chosen.digest, Any)
        if isinstance(document, dict) and "manifests" in document:
            named = _convert(document, Index, source, chosen.digest).manifests
            continue
        config = _convert(document, Manifest, source, chosen.digest).config.digest
        facts = _decode(_blob(store, config, source), source, config, Configuration)
        return _from_configuration(name, source, facts)
    raise InputError("indexes that lead to indexes", where=source, expected="at most four deep")


def _for_platform(found: list[Descriptor], platform: str, source: str) -> Descriptor:
    """The manifest to follow: the only one, or the one of the platform."""
    # A statement about the build is listed like an image, with the system "unknown".
    told = [one for one in found if one.platform is not None and one.platform.os != "unknown"]
    if len(found) == 1:
        if told and "index" not in told[0].mediaType and str(told[0].platform) != platform:
            raise _no_platform(told, platform, source)
        return found[0]
    matching = [one for one in told if str(one.platform) == platform]
    if told and not matching:
        raise _no_platform(told, platform, source)
    return _only(matching or found, [name for one in found for name in _names(one)], source)


def _no_platform(told: list[Descriptor], platform: str, source: str) -> InputError:
    there = ", ".join(sorted({str(one.platform) for one in told}))
    return InputError(
        "no image for the platform", where=source, value=platform, expected=f"--platform, one of {there}"
    )


def _names(descriptor: Descriptor) -> tuple[str, ...]:
    noted = descriptor.annotations or {}
    return tuple(noted[key] for key in NAME_ANNOTATIONS if key in noted)


def _blob(store: Store, digest: str, source: str) -> bytes:
    algorithm, _, hexadecimal = digest.partition(":")
    if algorithm != "sha256" or not hexadecimal.isalnum():
        raise InputError("a digest of another kind", where=source, value=digest, expected="sha256:...")
    content = _must_read(store, f"blobs/sha256/{hexadecimal}", source)
    if hashlib.sha256(content).hexdigest() != hexadecimal:
        raise InputError("the file has another digest: it is damaged", field=digest, where=source)
    return content


def _must_read(store: Store, name: str, source: str) -> bytes:
    content = store.read(name)
    if content is None:
        raise InputError("a file is missing", field=name, where=source, expected="the whole image")
    return content


def _only(found: list[Kind], names: Iterable[str], source: str) -> Kind:
    if len(found) != 1:
        raise _only_error(names, source)
    return found[0]


def _only_error(names: Iterable[str], source: str) -> InputError:
    known = ", ".join(sorted(set(names))[:10]) or "one without a name"
    return InputError("not one image of that name", where=source, expected=f"--tag, one of {known}")


def _from_configuration(name: str, source: str, found: Configuration) -> ImageFacts:
    steps = tuple(step.created_by for step in found.history or ())
    return _facts(name, source, found.config or Settings(), steps)


def _facts(name: str, source: str, settings: Settings, history: tuple[str, ...]) -> ImageFacts:
    return ImageFacts(
        name,
        source,
        read_variables(settings.Env or (), source),
        settings.Labels or {},
        history,
        complete=True,
    )


def read_variables(lines: Iterable[str], source: str) -> dict[str, str]:
    """Variables from lines NAME=VALUE; of one that is there twice the last counts, as in a container."""
    found = {}
    for line in lines:
        name, equals, value = line.partition("=")
        if not equals or not name:
            raise InputError("not a variable", where=source, field="Env", value=line, expected="NAME=VALUE")
        found[name] = value
    return found


def _decode(content: bytes, where: str, field: str, kind: type[Kind]) -> Kind:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(str(error), where=where, field=field, expected="an image's JSON") from error


def _convert(document: object, kind: type[Kind], where: str, field: str) -> Kind:
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise InputError(str(error), where=where, field=field, expected="an image's JSON") from error


def _begins_as_json(path: Path) -> bool:
    return read_beginning(path, 64).lstrip()[:1] in {b"{", b"["}


def _refuse_misspelt_path(text: str) -> None:
    """A name that can only be a path is no image's name."""
    if text.startswith(("/", "./", "../", "~")) or text.endswith((".tar", ".tar.gz", ".tgz", ".json")):
        raise FileNotFoundError(f"{text}: No such file or directory")
