"""How right and how fast advice is: fit against measurements, lint of a thousand manifests, other commands.

What is linted are the documents of examples/, broken ones among them, copied until they are a thousand:
each document is a file, each round of copies a namespace. Every measurement is a whole process, as somebody
at a prompt or a pipeline starts it. The references are the same files read by PyYAML, once in C and once in
Python, and a Python that starts and does nothing.
"""

import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import yaml

from bench.doctor import doctor_figures
from bench.figures import Figure, figure, publish
from bench.fit_accuracy import accuracy_figures
from bench.progress import say

MANIFESTS = 1000
ROUNDS = 5
LINT_S, ANSWER_S = 5.0, 0.5
EXAMPLES = Path("examples")
LINT = (sys.executable, "-m", "gpufleet", "lint")

QUESTIONS = {
    "fit, one card": ("fit", "llama-3.3-70b", "--gpu", "h100-80", "--context", "32768"),
    "fit, every card": ("fit", "qwen3-30b-a3b"),
    "fit, several nodes": ("fit", "deepseek-v3", "--gpu", "h100-80", "--context", "131072"),
    "fit, latent attention on every card": ("fit", "kimi-k2"),
    "fit, a thousand GPUs to train": ("fit", "llama-3.1-405b", "--train", "full"),
    "cuda": (
        "cuda",
        "--image",
        "nvcr.io/nvidia/pytorch:25.10-py3",
        "--driver",
        "570.124.06",
        "--gpu",
        "H100",
    ),
}

READ = """
import pathlib, sys, yaml
for path in sorted(pathlib.Path(sys.argv[1]).rglob("*.yaml")):
    list(yaml.load_all(path.read_text(encoding="utf-8"), Loader=getattr(yaml, sys.argv[2])))
"""


class Linted(msgspec.Struct, frozen=True):
    """As much of lint's report as is told."""

    findings: list[msgspec.Raw]


def documents() -> list[str]:
    """The documents of all examples that are manifests, as they are written."""
    files = [path.read_text(encoding="utf-8") for path in sorted(EXAMPLES.rglob("*.yaml"))]
    texts = [text for file in files for text in re.split(r"^---\n", file, flags=re.MULTILINE)]
    # Where braces stand, the document is a form to fill in.
    return [text for text in texts if re.search(r"^kind:", text, flags=re.MULTILINE) and "{{" not in text]


def write_manifests(folder: Path) -> None:
    """A thousand files; a document's copies differ in their namespace."""
    texts = documents()
    for number in range(MANIFESTS):
        copy, place = divmod(number, len(texts))
        text = re.sub(r"^  namespace: .*\n", "", texts[place], flags=re.MULTILINE)
        text = re.sub(
            r"^metadata:\n", f"metadata:\n  namespace: team-{copy}\n", text, count=1, flags=re.MULTILINE
        )
        target = folder / f"team-{copy}" / f"{place:03}.yaml"
        target.parent.mkdir(exist_ok=True)
        target.write_text(text, encoding="utf-8")


def seconds(command: Sequence[str], allowed: Sequence[int] = (0,)) -> float:
    """How long the process took. Raises RuntimeError if it ended in another way than it may."""
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, check=False)
    took = time.perf_counter() - started
    if done.returncode not in allowed:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.decode()}")
    return took


def median(command: Sequence[str], allowed: Sequence[int] = (0,)) -> float:
    """Of some rounds."""
    return statistics.median(seconds(command, allowed) for _ in range(ROUNDS))


def mended_s(folder: Path, copy: Path) -> float:
    """``--fix`` on fresh copies, since it finds nothing to mend twice."""
    took = []
    for _ in range(ROUNDS):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        took.append(seconds((*LINT, "--fix", str(copy)), (0, 1)))
    return statistics.median(took)


def lint_figures(folder: Path) -> tuple[list[Figure], str]:
    """Lint beside the mere reading of the same files."""
    manifests, mended = folder / "manifests", folder / "mended"
    manifests.mkdir()
    write_manifests(manifests)
    say(f"linting {MANIFESTS} manifests, {ROUNDS} times each way")
    plain = median((*LINT, str(manifests)), (0, 1))
    fixing = mended_s(manifests, mended)
    in_c, in_python = (
        median((sys.executable, "-c", READ, str(manifests), loader))
        for loader in ("CSafeLoader", "SafeLoader")
    )
    size_kib = sum(path.stat().st_size for path in manifests.rglob("*.yaml")) / 1024
    before, after = (len(report(one).findings) for one in (manifests, mended))
    return [
        figure("lint of 1,000 manifests", plain, "s", "lower", LINT_S),
        figure("... as a multiple of PyYAML's reading, in C", plain / in_c, "x", "lower"),
        figure("... as a multiple of PyYAML's reading, in Python", plain / in_python, "x", "lower"),
        figure("lint --fix of 1,000 manifests", fixing, "s", "lower", LINT_S),
        figure("... as a multiple of lint alone", fixing / plain, "x", "lower"),
        figure("PyYAML reads them, in C", in_c, "s", "lower"),
        figure("PyYAML reads them, in Python", in_python, "s", "lower"),
    ], f"{size_kib:.0f} KiB of manifests; {before} findings, {after} after --fix"


def report(folder: Path) -> Linted:
    """What lint finds in there."""
    done = subprocess.run((*LINT, "-o", "json", str(folder)), capture_output=True, check=False)
    return msgspec.json.decode(done.stdout, type=Linted)


def answer_figures() -> list[Figure]:
    """Questions beside a Python that starts."""
    say("asking fit and cuda")
    start = median((sys.executable, "-c", "pass"))
    found = [figure("Python starts and ends", start, "s", "lower")]
    for name, words in QUESTIONS.items():
        took = median((sys.executable, "-m", "gpufleet", *words), (0, 1, 4))
        found.append(figure(name, took, "s", "lower", ANSWER_S))
        found.append(figure("... as a multiple of Python's start", took / start, "x", "lower"))
    return found


def main() -> None:
    """Measure everything and publish."""
    if not hasattr(yaml, "CSafeLoader"):
        raise RuntimeError("this PyYAML has no parser in C, so there is nothing to compare with")
    with tempfile.TemporaryDirectory() as folder:
        figures, note = lint_figures(Path(folder))
    publish("advise", [*accuracy_figures(), *figures, *answer_figures(), *doctor_figures()], [note])


if __name__ == "__main__":
    main()
