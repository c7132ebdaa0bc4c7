"""How ``gpufleet cuda`` prints a judgement: for people, or as JSON, and with which code it ends."""

import textwrap

from gpufleet.cli.output import echo_json, echo_line
from gpufleet.cuda.answer import Check, CudaAnswer
from gpufleet.cuda.judging import Judgement
from gpufleet.cuda.tables import tables
from gpufleet.model.cuda_compatibility import AS_OF

SCHEMA = "gpufleet.io/cuda/v1"
# Sentences are wrapped here also on wider terminals: longer lines are hard to read.
WIDTH = 110
CODES = {CudaAnswer.OK: 0, CudaAnswer.NO: 1, CudaAnswer.UNKNOWN: 4}
WORDS = {CudaAnswer.OK: "it runs", CudaAnswer.NO: "it does NOT run", CudaAnswer.UNKNOWN: "UNKNOWN"}


def code(answer: CudaAnswer) -> int:
    """The exit code, for scripts."""
    return CODES[answer]


def show(judgement: Judgement, *, as_json: bool) -> None:
    """Print it on standard output."""
    if as_json:
        echo_json(document(judgement))
        return
    for line in lines(judgement):
        echo_line(line)


def document(judgement: Judgement) -> dict[str, object]:
    """The judgement as values of JSON; fields are only ever added."""
    image, node = judgement.image, judgement.node
    told = image.toolkit()
    package = image.compatibility_package()
    dated = tables()
    return {
        "schema": SCHEMA,
        "answer": judgement.answer.value,
        "image": {
            "name": image.name,
            "source": image.source,
            "complete": image.complete,
            "cuda": None if told is None else str(told.toolkit),
            "cudaToldBy": None if told is None else told.by,
            "compatibilityPackage": None if package is None else str(package.toolkit),
        },
        "node": {
            "driver": node.driver_text,
            "driverCuda": node.reported_cuda,
            "gpu": None if node.gpu is None else str(node.gpu.name),
            "computeCapability": node.capability,
        },
        "checks": [_check(one) for one in judgement.checks],
        "tables": {
            "drivers": AS_OF,
            "architectures": dated.architectures.as_of,
            "forwardCompatibility": dated.forward.as_of,
            "brands": dated.brands.as_of,
        },
    }


def _check(check: Check) -> dict[str, object]:
    return {
        "question": check.question.value,
        "answer": check.answer.value,
        "reason": check.reason,
        "caution": check.caution,
        "waysOut": list(check.ways_out),
    }


def lines(judgement: Judgement) -> list[str]:
    """The judgement for a person: the answer, each check, what would help, and of when the tables are."""
    image, node = judgement.image, judgement.node
    gpu = "an unknown GPU" if node.gpu is None else str(node.gpu.name)
    found = [f"{image.name} with driver {node.driver_text} on {gpu}: {WORDS[judgement.answer]}", ""]
    for check in judgement.checks:
        head = f"{check.answer.value:9}{check.question.value:14}"
        found += _wrapped(head, check.reason)
        if check.caution:
            found += _wrapped(" " * len(head), f"but: {check.caution}")
    ways_out = [
        # What would help a check that decides nothing would leave the answer as it is.
        way
        for check in judgement.checks
        if check.answer is judgement.answer
        for way in check.ways_out
    ]
    if ways_out:
        found.append("")
    for place, way in enumerate(dict.fromkeys(ways_out)):
        found += _wrapped("Way out: " if place == 0 else "  or:    ", way)
    # The older of them tells how far the answer may be behind new drivers and cards.
    oldest = min(AS_OF, tables().architectures.as_of)
    return [*found, "", f"Tables as of {oldest}."]


def _wrapped(head: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False
    )
