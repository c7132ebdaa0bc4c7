"""The order of a build, and what is kept for the next: fetched packages, the base, compiled kernels.

The base (Debian and our dependencies) is one layer that changes when they change; what is ours is the other.
Both are made in a folder and then packed, so that the kernels can be compiled with everything in place.
"""

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import msgspec

from gpufleet import __version__
from gpufleet.progress.durations import Step
from gpufleet.progress.reporting import Progress
from image import archive, debian, dependencies, layers, ours
from image.architecture import Architecture, native
from image.archive import ImageConfig
from image.errors import ImageError
from image.layers import Layer, Owned

REPOSITORY = "gpufleet.local/gpufleet"
FORMAT = "2"
"""Changed with the way in which a base is made, so that no older one is taken for it."""

OWNED = {ours.CACHE: Owned(ours.NONROOT, 0o755), "tmp": Owned(0, 0o1777)}
BASES_KEPT = 2
WITHOUT_KERNELS = (
    "without kernels: the machine that they are for compiles them, so a scheduler of this image does when it "
    "starts, for about a minute; an image that is built on such a machine has them"
)


class Built(msgspec.Struct, frozen=True):
    """A built image: its archive, and under which names it is imported."""

    path: Path
    name: str
    digest: str


def problem(architecture: Architecture | None = None) -> str | None:
    """Why no image can be built here, for this machine or another, with the way out; None if one can."""
    try:
        wanted = architecture or native()
    except ImageError as error:
        return str(error)
    if wanted.problem is not None:
        return wanted.problem
    if os.geteuid() != 0 and wanted.is_native:
        return "the image's kernels are compiled inside it, which needs root (chroot)"
    lacking = [name for name in ("apt-get", "dpkg-deb") if shutil.which(name) is None]
    if lacking:
        return f"the image is made of Debian's packages, and there is no {' and no '.join(lacking)}"
    return None


def build(target: Path, cache: Path, progress: Progress, architecture: Architecture) -> Built:
    """Write the image's archive to ``target``. Raises ImageError where it cannot be."""
    found = problem(architecture)
    if found is not None:
        raise ImageError(found)
    cache.mkdir(parents=True, exist_ok=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    with progress.during("finding Debian's packages", str, Step("image packages", 15.0)):
        packages = debian.fetch(cache / f"debian-{architecture.name}", architecture.name)
    base = _base(cache, packages, progress, architecture)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".building-") as name:
        scratch = Path(name)
        root = scratch / "root"
        # Hard links: the base is not copied, and nobody writes into its files.
        shutil.copytree(base / "root", root, symlinks=True, copy_function=os.link)
        before = layers.all_names(root)
        progress.say("adding the wheel of this checkout")
        ours.add_wheel(root, scratch)
        if architecture.is_native:
            with progress.during(
                "adding the engine's kernels for a generic CPU", str, Step("image kernels", 60.0)
            ):
                ours.add_kernels(root, _folder(cache / f"kernels-{architecture.name}"))
        else:
            progress.say(WITHOUT_KERNELS)
        ours.compile_modules(root, f"/{dependencies.SITE}/gpufleet", runs_here=architecture.is_native)
        progress.say("packing")
        added = layers.all_names(root) - before
        own = layers.pack(root, added, scratch / "own.tar.gz", OWNED)
        config = ImageConfig(
            entrypoint=("/usr/local/bin/gpufleet",),
            user=f"{ours.NONROOT}:{ours.NONROOT}",
            environment=ours.ENVIRONMENT,
            labels=_labels(),
            architecture=architecture.name,
        )
        digest = archive.write(target, REPOSITORY, __version__, config, (_base_layer(base), own))
    return Built(target, f"{REPOSITORY}:{__version__}", digest)


def _base(cache: Path, packages: tuple[Path, ...], progress: Progress, architecture: Architecture) -> Path:
    """The folder with the base and its layer, made if it is not there."""
    lock = dependencies.wanted(dependencies.LOCK.read_text(encoding="utf-8"))
    made_of = "\n".join([FORMAT, *(package.name for package in packages), lock])
    folder = cache / f"base-{hashlib.sha256(made_of.encode()).hexdigest()[:16]}"
    if folder.is_dir():
        os.utime(folder)
        return folder
    unfinished = cache / f".{folder.name}"
    shutil.rmtree(unfinished, ignore_errors=True)
    root = unfinished / "root"
    root.mkdir(parents=True)
    progress.say(f"unpacking {len(packages)} of Debian's packages")
    debian.unpack(packages, root)
    with progress.during("installing the locked Python packages", str, Step("image dependencies", 40.0)):
        dependencies.install(root, unfinished, architecture.machine)
    (root / "tmp").mkdir(exist_ok=True)
    folders = (f"/usr/lib/{debian.PYTHON}", f"/{dependencies.SITE}")
    ours.compile_modules(root, *folders, runs_here=architecture.is_native)
    with progress.during("packing the base", str, Step("image base", 40.0)):
        layer = layers.pack(root, layers.all_names(root), unfinished / "layer.tar.gz", OWNED)
    told = msgspec.structs.replace(layer, path="layer.tar.gz")
    (unfinished / "layer.json").write_bytes(msgspec.json.encode(told))
    unfinished.rename(folder)
    _sweep(cache, folder)
    return folder


def _base_layer(base: Path) -> Layer:
    told = msgspec.json.decode((base / "layer.json").read_bytes(), type=Layer)
    return msgspec.structs.replace(told, path=str(base / told.path))


def _sweep(cache: Path, newest: Path) -> None:
    """Bases are large; keep a few."""
    others = sorted(cache.glob("base-*"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in [path for path in others if path != newest][BASES_KEPT - 1 :]:
        shutil.rmtree(path, ignore_errors=True)


def _labels() -> dict[str, str]:
    return {
        "org.opencontainers.image.title": "gpufleet",
        "org.opencontainers.image.description": "The scheduler and the node agent of gpufleet",
        "org.opencontainers.image.version": __version__,
        "org.opencontainers.image.licenses": "Apache-2.0",
    }


def _folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path
