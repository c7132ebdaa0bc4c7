"""Finds the texts to lint: named files, the manifests below folders, standard input.

Of a folder, only files that can hold manifests are read. Helm's templates are no YAML before they are
rendered, so a chart is read as helm renders it (``rendering``), and left out where there is no helm. Patches
of Kustomize are parts of objects and are left out too.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from gpufleet.advise.lint.kustomize import patches_of
from gpufleet.advise.lint.rendering import helm, kustomized, rendered_chart
from gpufleet.files.regular import UnfitFileError, read_regular, read_standard_input
from gpufleet.lint.source.text import BYTE_ORDER_MARK, Position, Problem, SourceText
from gpufleet.model.model_errors import InputError

STANDARD_INPUT = "-"
ENDINGS = frozenset({".yaml", ".yml", ".json"})
CHART = "Chart.yaml"
TEMPLATES, SUBCHARTS = "templates", "charts"
SIZE_MAX_BYTES = 64 * 2**20
"""Text, tree and edits are held in memory together."""

DEPTH_MAX = 100
"""Folders in folders."""
STANDARD_INPUT_HINT = (
    f"give a regular file of at most {SIZE_MAX_BYTES >> 20} MiB, or pipe it to gpufleet lint -"
)


@dataclass
class Inputs:
    """The texts, what could not be read, and what was left out on purpose."""

    sources: list[SourceText] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    named: set[str] = field(default_factory=set)
    """The names of those that were asked for by name and not found in a folder."""

    patches: frozenset[Path] = frozenset()
    """Files that a Kustomization applies as patches."""

    renders: bool = True
    """Whether charts are rendered; what is to be mended in files is not."""

    def take(self, name: str, read: Callable[[], bytes]) -> None:
        """Read one text and take it in, unless it is no file, too large, or no text. Raises OSError."""
        try:
            data = read()
        except UnfitFileError as error:
            self.problems.append(Problem(name, Position(1, 1), f"{error.problem}; {STANDARD_INPUT_HINT}"))
        else:
            self.add(name, data)

    def add(self, name: str, data: bytes) -> None:
        """Take one text in, unless it is none."""
        if len(data) > SIZE_MAX_BYTES:
            self.problems.append(Problem(name, Position(1, 1), f"larger than {SIZE_MAX_BYTES >> 20} MiB"))
            return
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as found:
            good = SourceText(name, data[: found.start].decode("utf-8"))
            problem = f"not UTF-8: byte {data[found.start]:#04x}; write the file as UTF-8"
            self.problems.append(Problem(name, good.position(len(good.text)), problem))
            return
        # Kept out of the text, so that offsets are the parser's; writing the file puts it back.
        self.sources.append(SourceText(name, text.removeprefix(BYTE_ORDER_MARK)))


def find_inputs(
    paths: Sequence[str],
    excluded: Sequence[str] = (),
    kustomizations: Sequence[Path] = (),
    *,
    renders: bool = True,
) -> Inputs:
    """The texts of all these paths, each once, and what these Kustomizations build.

    Raises OSError for what cannot be read, and InputError for a Kustomization that cannot be built.
    """
    found = Inputs(renders=renders)
    for folder in kustomizations:
        name, built = kustomized(folder)
        found.named.add(name)
        found.add(name, built)
    seen: set[Path] = set()
    for path in paths:
        if path == STANDARD_INPUT:
            found.take(STANDARD_INPUT, lambda: read_standard_input(SIZE_MAX_BYTES))
            found.named.add(STANDARD_INPUT)
        elif Path(path).is_dir():
            # All of them first: a Kustomization may stand behind its patches.
            for file in list(_below(Path(path), found, excluded)):
                if file.resolve() not in seen | found.patches:
                    seen.add(file.resolve())
                    found.take(str(file), partial(read_regular, file, SIZE_MAX_BYTES))
        elif Path(path).resolve() not in seen:
            seen.add(Path(path).resolve())
            found.named.add(path)
            found.take(path, partial(read_regular, path, SIZE_MAX_BYTES))
    return found


def _below(folder: Path, found: Inputs, excluded: Sequence[str], depth: int = 1) -> Iterator[Path]:
    is_chart = (folder / CHART).is_file()
    # As a whole: what a chart has below it in ``charts`` is rendered with it.
    left_out = _parts_of_chart(folder, found) if is_chart else ()
    patches = patches_of(folder)
    if patches:
        names = ", ".join(sorted(one.name for one in patches))
        whole = f"gpufleet lint -k {folder} reads the whole"
        found.patches |= patches
        found.notices.append(f"{folder}: patches are left out ({names}): {whole}")
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith(".") or any(entry.match(pattern) for pattern in excluded):
            continue
        # Links are left out: one that leads above itself would be followed as deep as folders may be.
        if entry.is_dir() and not entry.is_symlink():
            if entry.name in left_out:
                continue
            if depth < DEPTH_MAX:
                yield from _below(entry, found, excluded, depth + 1)
            else:
                problem = f"folders are nested deeper than {DEPTH_MAX}"
                found.problems.append(Problem(str(entry), Position(1, 1), problem))
        elif entry.name == CHART:
            # It has an apiVersion, which is Helm's, and no kind.
            continue
        elif entry.suffix in ENDINGS and entry.is_file():
            yield entry


def _parts_of_chart(folder: Path, found: Inputs) -> tuple[str, ...]:
    """Take in what a chart renders with its own values, or say why that is not judged. Returns the folders
    of the chart of which no file is to be read.
    """
    templates = folder / TEMPLATES
    by_hand = f"helm template {folder} | gpufleet lint - reads it"
    program = helm()
    if not found.renders:
        notice = f"{templates} is left out, since what helm renders has no file to mend"
    elif program is None:
        notice = f"{templates} is not judged, since helm is not on PATH: {by_hand}"
    else:
        try:
            found.add(*rendered_chart(program, folder))
        except InputError as problem:
            notice = f"{templates} is not judged: {problem}; with the values that it needs, {by_hand}"
        else:
            return TEMPLATES, SUBCHARTS
    if templates.is_dir():
        found.notices.append(notice)
    return (TEMPLATES,)
