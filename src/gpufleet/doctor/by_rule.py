"""Checks that are a rule of ``lint`` asked about what runs: it says what is wrong, here is who suffers."""

from collections.abc import Callable, Iterator

from gpufleet.doctor.check import Failure, Good, Mend, Unjudged, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.views.workloads import Workload
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.rule import Remark, Rule
from gpufleet.lint.source.fields import Field

Seen = Callable[[Facts, Manifest], tuple[str, ...]]
_MAY_BE_SECRET = frozenset({"env", "args", "command", "annotations"})


def judged_by(
    rule: Rule,
    right: str,
    kinds: tuple[str, ...] = (),
    only: Callable[[Facts, Workload], bool] = lambda _facts, _workload: True,
    seen: "Seen | None" = None,
) -> Callable[[Facts], Iterator[Failure | Good | Unjudged]]:
    """A judge that asks ``rule`` about every workload, or about every object of ``kinds``.

    ``right`` is the sentence for where nothing was found; ``only`` says which workloads are asked about,
    and ``seen`` what was seen of one that is wrong, where that is more than the field that the rule names.
    """

    def judge(facts: Facts) -> Iterator[Failure | Good | Unjudged]:
        subjects = (
            [(one, frozenset({one.title})) for one in facts.of_kind(*kinds)]
            if kinds
            else [(one.manifest, one.affects) for one in facts.workloads if only(facts, one)]
        )
        concerned = [one for one in subjects if rule.concerns(one[0])]
        found: dict[tuple[str, str], list[tuple[Manifest, frozenset[str], Remark]]] = {}
        lacks: set[str] = set()
        for manifest, affects in concerned:
            for verdict in rule.check(manifest, facts.context):
                if isinstance(verdict, Remark):
                    found.setdefault((verdict.says, verdict.advice), []).append((manifest, affects, verdict))
                else:
                    lacks.add(verdict.lacks)
        for group in found.values():
            yield _failure(rule, group, seen(facts, group[0][0]) if seen is not None else ())
        if concerned and not found:
            yield Unjudged(f"{rule.title}: it would need {listed(sorted(lacks))}") if lacks else Good(right)

    return judge


def _failure(
    rule: Rule, group: list[tuple[Manifest, frozenset[str], Remark]], seen: tuple[str, ...]
) -> Failure:
    titles = list(dict.fromkeys(manifest.title for manifest, _, _ in group))
    manifest, _, remark = group[0]
    evidence = seen or _shown(remark.field)
    how = Mend(remark.advice, f"gpufleet lint --explain {rule.id}")
    mends = (how, Mend("see what mends it", diff_command(manifest))) if remark.fix is not None else (how,)
    affected = frozenset[str]().union(*(affects for _, affects, _ in group))
    return Failure(f"{listed(titles)}: {remark.says}", tuple(titles), evidence, mends, affected)


def _shown(field: Field) -> tuple[str, ...]:
    """The field with what stands there; of what may be a secret only where it stands."""
    if not field.exists:
        return (f"{field.path}: not said",)
    if field.text and not _MAY_BE_SECRET & set(field.keys):
        return (f"{field.path}: {field.text}",)
    return (field.path,)


def on_gpu_nodes(facts: Facts, workload: Workload) -> bool:
    """Whether pods of a workload are where GPUs are."""
    return any(one.node in facts.gpu_node_names for one in workload.pods)


def diff_command(manifest: Manifest) -> str:
    """What shows how an object is mended."""
    return f"{get_command(manifest)} -o yaml | gpufleet lint - --live --diff"


def get_command(manifest: Manifest) -> str:
    """The command of kubectl that gets an object."""
    kind = f"{manifest.kind}.{manifest.group}".rstrip(".").lower()
    place = f" -n {manifest.namespace}" if manifest.namespace else ""
    return f"kubectl get{place} {kind} {manifest.name}"
