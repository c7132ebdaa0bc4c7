"""What ``gpufleet lint`` does: reads, judges, mends if asked, tells. ``cli.lint`` is the command line."""

import datetime as dt
import difflib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpufleet.advise.lint.acceptance import FROM_BASELINE, Terms, without_accepted
from gpufleet.advise.lint.baseline import Fingerprint, baseline_text, read_baseline
from gpufleet.advise.lint.inputs import SIZE_MAX_BYTES, STANDARD_INPUT, Inputs, find_inputs
from gpufleet.advise.lint.settings import NAME, Settings, read_settings
from gpufleet.advise.lint.snapshot_file import PACKED_MAX_BYTES, is_snapshot, snapshot_cluster
from gpufleet.files.atomic_write import write_whole
from gpufleet.files.regular import read_regular
from gpufleet.lint.findings import Finding, Report
from gpufleet.lint.fixing import fix
from gpufleet.lint.objects.cluster import Cluster
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.measured_use import MeasuredUse
from gpufleet.lint.outputs.annotations import as_annotations
from gpufleet.lint.outputs.json_report import as_json
from gpufleet.lint.outputs.junit import as_junit
from gpufleet.lint.outputs.plain_text import as_text
from gpufleet.lint.outputs.sarif import as_sarif
from gpufleet.lint.rule import Severity
from gpufleet.lint.rules import all_rules, page
from gpufleet.lint.run import Reading, lint, read
from gpufleet.lint.source.text import BYTE_ORDER_MARK, Problem, SourceText
from gpufleet.model.label_advice import nearest
from gpufleet.model.model_errors import InputError

FORMATS: dict[str, Callable[[Report], str]] = {
    "text": as_text,
    "json": as_json,
    "sarif": as_sarif,
    "junit": as_junit,
    "github": as_annotations,
}
_THRESHOLDS = {"info": Severity.INFO, "warning": Severity.WARNING, "error": Severity.ERROR, "never": None}
CLUSTER_EXPECTED = "objects of a cluster, as kubectl get prints them with -o yaml"
# As other linters: continuous integration tells findings from input that cannot be read.
CODE_CLEAN, CODE_FINDINGS, CODE_BAD_INPUT = 0, 1, 2


@dataclass(frozen=True)
class LintOptions:
    """What the user asked for."""

    today: dt.date
    form: str = "text"
    fail_on: str | None = None
    fixes: bool = False
    shows_difference: bool = False
    cluster: Cluster | None = None
    use: MeasuredUse | None = None
    settings: Path | None = None
    baseline: Path | None = None
    new_baseline: Path | None = None
    kustomizations: tuple[Path, ...] = ()


@dataclass(frozen=True)
class LintOutcome:
    """What to print, and how to end."""

    code: int
    report: str
    output: str = ""
    messages: tuple[str, ...] = ()


def run(paths: Sequence[str], options: LintOptions) -> LintOutcome:
    """Lint everything below these paths; writes files only if fixes are wished for and no difference."""
    settings = _settings(options.settings)
    known = read_baseline(options.baseline) if options.baseline else Counter[Fingerprint]()
    terms = Terms(options.today, settings, known)
    cluster = options.cluster
    use = None if options.use is None else replace(options.use, idle_hours_max=settings.idle_hours)
    mends = options.fixes or options.shows_difference
    inputs = find_inputs(paths, settings.exclude, options.kustomizations, renders=not mends)
    readings = [read(source) for source in inputs.sources]
    report = _judged(readings, inputs, terms, cluster, use)
    output = ""
    if mends:
        fixed = _fixed(readings, terms, cluster)
        if options.shows_difference:
            output = "".join(
                _difference(old.source, new.source) for old, new in zip(readings, fixed, strict=True)
            )
        else:
            output = _write(readings, fixed)
            report = _judged(fixed, inputs, terms, cluster, use)
    if options.new_baseline is not None:
        accepted = [one.finding for one in report.suppressed if one.reason == FROM_BASELINE]
        write_whole(options.new_baseline, baseline_text([*report.findings, *accepted]).encode())
    messages = (*map(str, report.problems), *report.notices)
    code = (
        CODE_FINDINGS
        if report.fails(_THRESHOLDS[options.fail_on or settings.fail_on or "warning"])
        else CODE_CLEAN
    )
    code = CODE_BAD_INPUT if report.problems else code
    return LintOutcome(code, FORMATS[options.form](report), output, messages)


def explain(rule_id: str) -> str:
    """The page of a rule. Raises InputError for an id that is none."""
    known = {rule.id for rule in all_rules()}
    wanted = rule_id.upper()
    if wanted not in known:
        meant = nearest(wanted, sorted(known))
        raise InputError("no such rule", value=rule_id, expected=f"{meant}?" if meant else "GPU001 to GPU057")
    return page(wanted)


def listing() -> str:
    """Every rule on a line."""
    return "".join(
        f"{rule.id}  {rule.severity.word:8}{rule.scope.value:10}{'fix' if rule.fixes else '':5}{rule.title}\n"
        for rule in all_rules()
    )


def read_cluster(path: Path) -> Cluster:
    """The objects of a cluster in this file. Raises InputError for what is malformed."""
    data = read_regular(path, PACKED_MAX_BYTES)
    if is_snapshot(data):
        return snapshot_cluster(data, str(path))
    inputs = Inputs()
    inputs.add(str(path), data)
    readings = [read(source) for source in inputs.sources]
    problems = [*inputs.problems, *(problem for one in readings for problem in one.problems)]
    if problems:
        raise InputError(problems[0].reason, where=problems[0].place, expected=CLUSTER_EXPECTED)
    if not any(one.manifests for one in readings):
        raise InputError("holds no object", where=str(path), expected=CLUSTER_EXPECTED)
    return Cluster(tuple(manifest for one in readings for manifest in one.manifests))


def _settings(path: Path | None) -> Settings:
    """The settings of this file; of the one in the current folder where none is named; else none."""
    known = frozenset(rule.id for rule in all_rules())
    if path is not None:
        return read_settings(path, known)
    return read_settings(Path(NAME), known) if Path(NAME).is_file() else Settings()


def _judged(
    readings: Sequence[Reading],
    inputs: Inputs,
    terms: Terms,
    cluster: Cluster | None,
    use: MeasuredUse | None,
) -> Report:
    report = without_accepted(lint(readings, all_rules(), cluster=cluster, use=use), readings, terms)
    notices = [
        f"{one.source.name} holds no Kubernetes object"
        for one in readings
        if one.source.name in inputs.named and not one.manifests and not one.problems
    ]
    problems: tuple[Problem, ...] = (*inputs.problems, *report.problems)
    return replace(report, problems=problems, notices=(*inputs.notices, *notices))


def _fixed(readings: list[Reading], terms: Terms, cluster: Cluster | None) -> list[Reading]:
    """Each text mended in turn, the others around it as they are by then."""
    current = list(readings)
    rules = [rule for rule in all_rules() if rule.fixes]
    for number in range(len(current)):
        others = [one for index, one in enumerate(current) if index != number]

        def judge(reading: Reading, others: list[Reading] = others) -> list[Finding]:
            beside = [manifest for one in (*others, reading) for manifest in one.manifests]
            found = lint([reading], rules, Context(tuple(beside), cluster))
            # What is accepted is not mended behind its owner's back.
            return list(without_accepted(found, [reading], terms).findings)

        done = fix(current[number], judge)
        if done.does:
            current[number] = read(done.source)
    return current


def _difference(old: SourceText, new: SourceText) -> str:
    if old.text == new.text:
        return ""
    lines = difflib.unified_diff(
        old.text.splitlines(keepends=True),
        new.text.splitlines(keepends=True),
        f"a/{old.name.lstrip('/')}",
        f"b/{new.name.lstrip('/')}",
    )
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def _write(readings: Sequence[Reading], fixed: Sequence[Reading]) -> str:
    """Write what changed; returns the mended text of standard input."""
    output = ""
    for old, new in zip(readings, fixed, strict=True):
        # What came from standard input has no file to go back to.
        if new.source.name == STANDARD_INPUT:
            output = new.source.text
        elif new.source.text != old.source.text:
            # The mark was kept out of the text; a file that had it keeps it.
            path = Path(new.source.name)
            mark = (
                BYTE_ORDER_MARK
                if read_regular(path, SIZE_MAX_BYTES).startswith(BYTE_ORDER_MARK.encode())
                else ""
            )
            write_whole(path, (mark + new.source.text).encode())
    return output
