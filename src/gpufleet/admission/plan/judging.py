"""A plan from objects, by the same verdicts, exceptions, images and additions as at admission.

An object is judged as if it were made anew, and so are its next pods, which are completed first as the server
does it. Both are told apart: what a Deployment is excepted from by its own annotation, its pods are not.
"""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpufleet.admission.cel.rules import FINDINGS
from gpufleet.admission.images import DEFAULT, ImagePolicy, image_findings, images_of, policy_of
from gpufleet.admission.images import LABEL as IMAGES_LABEL
from gpufleet.admission.plan.answer import (
    OBJECT,
    PODS,
    SCHEMA,
    AdmissionPlan,
    ExceptedRule,
    FieldChange,
    PlannedFinding,
    PlannedNamespace,
    PlannedWorkload,
)
from gpufleet.admission.plan.field_changes import field_changes
from gpufleet.admission.plan.fleet_objects import POD, Body, FleetObjects, Key, Namespace
from gpufleet.admission.plan.pod_shape import check_pod
from gpufleet.admission.policies import LABEL, LEFT_ALONE, Action
from gpufleet.admission.treatment import Judge, judged_by
from gpufleet.admission.verdicts import exception_of, manifest_of, verdicts
from gpufleet.completion.additions import Completion
from gpufleet.completion.completing import completing_patch
from gpufleet.completion.json_patch import patched_copy
from gpufleet.kube.keys import MANAGED
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.rule import Severity
from gpufleet.lint.source.nodes import Mapping as MappingNode
from gpufleet.lint.source.nodes import Node, data_of

IMAGES = "images"
WORDS = {Action.DENY: "refused", Action.WARN: "warned", Action.AUDIT: "noted", Action.OFF: "passes"}
"""What happens to an object with a finding, by how its namespace treats it."""

_WEIGHTS = {"refused": 3, "warned": 2, "noted": 1, "passes": 0}


@dataclass(frozen=True)
class Question:
    """How namespaces would be treated.

    ``images_mode`` is None for what the label of each says. ``completes`` completes pods of every namespace,
    not only where the label says so. ``namespaces`` is empty for all.
    """

    mode: Action
    today: dt.date
    completion: Completion
    images_mode: Action | None = None
    images: ImagePolicy = DEFAULT
    completes: bool = False
    namespaces: tuple[str, ...] = ()


def plan_from(objects: FleetObjects, question: Question, notes: Iterable[str] = ()) -> AdmissionPlan:
    """The whole plan. Namespaces in which nothing is judged are left out."""
    by_namespace: dict[str, list[tuple[Key, Body]]] = {one: [] for one in question.namespaces}
    for key, body in objects.workloads():
        if question.namespaces and key.namespace not in question.namespaces:
            continue
        by_namespace.setdefault(key.namespace, []).append((key, body))
    said = list(notes)
    for name in sorted(by_namespace.keys() & set(LEFT_ALONE)):
        del by_namespace[name]
        if name in question.namespaces:
            said.append(f"nothing is judged in {name}, whatever its label says")
    pods = objects.pods_of()
    planned = [
        _Judging(question, objects.namespaces.get(name, Namespace(name))).planned(found, pods)
        for name, found in sorted(by_namespace.items())
    ]
    return AdmissionPlan(SCHEMA, tuple(planned), tuple(said))


class _Judging:
    """The judgement of the objects of one namespace."""

    def __init__(self, question: Question, namespace: Namespace) -> None:
        self._question = question
        self._namespace = namespace
        policies = judged_by(Judge.POLICY)
        self._of_policies = frozenset(rule.id for rule in policies)
        self._rules = sorted((*policies, *judged_by(Judge.WEBHOOK)), key=lambda rule: rule.id)
        label = namespace.labels.get(IMAGES_LABEL)
        self._images_mode = question.images_mode or _action(label)
        self._images = policy_of(namespace.annotations, question.images)
        self._completes = question.completes or namespace.labels.get(MANAGED) == "true"

    def planned(self, found: list[tuple[Key, Body]], pods: Mapping[Key, int]) -> PlannedNamespace:
        """The namespace with the objects of which something is said, the worst first."""
        every = [self._workload(key, body, pods.get(key)) for key, body in found]
        said = [one for one in every if one.findings or one.excepted or one.completed]
        said.sort(key=lambda one: -_WEIGHTS[one.action])
        labels = self._namespace.labels
        return PlannedNamespace(
            self._namespace.name,
            labels.get(LABEL),
            self._question.mode.value,
            labels.get(IMAGES_LABEL),
            self._images_mode.value,
            self._completes,
            len(every),
            sum(one.action == "refused" for one in every),
            sum(one.action == "warned" for one in every),
            sum(bool(one.completed) for one in every),
            tuple(said),
        )

    def _workload(self, key: Key, body: Body, pods: int | None) -> PlannedWorkload:
        manifest = manifest_of(body)
        is_pod = (key.group, key.kind) == POD
        found: dict[tuple[str, str], PlannedFinding] = {}
        if not is_pod:
            self._add(found, self._findings(manifest, OBJECT))
        changes: list[FieldChange] = []
        templates = list(_pods(manifest, key))
        for role, pod in templates:
            completed = self._completed(pod)
            self._add(found, self._findings(manifest_of(completed), PODS))
            before = f"{role}: " if len(templates) > 1 else ""
            changes += [
                FieldChange(before + one.field, one.before, one.after)
                for one in field_changes(pod, completed)
            ]
        findings = sorted(found.values(), key=lambda one: (-_WEIGHTS[one.action], one.rule, one.words))
        action = max((one.action for one in findings), key=lambda one: _WEIGHTS[one], default="passes")
        excepted = tuple(self._excepted(manifest))
        return PlannedWorkload(
            key.kind,
            key.name,
            pods,
            action,
            tuple(findings),
            excepted,
            tuple(dict.fromkeys(changes)),
        )

    def _completed(self, pod: Body) -> Body:
        if not self._completes:
            return pod
        return patched_copy(pod, completing_patch(pod, self._question.completion))

    def _findings(self, manifest: Manifest, at: str) -> Iterator[PlannedFinding]:
        annotations = self._namespace.annotations
        for one in verdicts(manifest, self._rules, self._question.today, annotations, of_policies=FINDINGS):
            judge = Judge.POLICY if one.rule.id in self._of_policies else Judge.WEBHOOK
            action = WORDS[self._question.mode.of(one.severity)]
            yield PlannedFinding(one.rule.id, one.severity.word, action, judge.value, (at,), one.words)
        if self._images_mode is Action.OFF:
            return
        for template in manifest.templates:
            for image in images_of(template):
                for words in image_findings(image, self._images):
                    action = WORDS[self._images_mode]
                    severity = Severity.ERROR.word
                    said = f"images policy: {image} {words}"
                    yield PlannedFinding(IMAGES, severity, action, Judge.POLICY.value, (at,), said)

    def _add(self, found: dict[tuple[str, str], PlannedFinding], findings: Iterable[PlannedFinding]) -> None:
        """Keep each once, with all at which it is found."""
        for one in findings:
            known = found.get((one.rule, one.words))
            at = one.at if known is None else tuple(dict.fromkeys((*known.at, *one.at)))
            found[one.rule, one.words] = PlannedFinding(
                one.rule, one.severity, one.action, one.judge, at, one.words
            )

    def _excepted(self, manifest: Manifest) -> Iterator[ExceptedRule]:
        for rule in self._rules:
            one = exception_of(rule.id, manifest, self._question.today, self._namespace.annotations)
            if one is not None and rule.concerns(manifest):
                until = None if one.until is None else one.until.isoformat()
                yield ExceptedRule(rule.id, one.reason, until)


def _action(label: str | None) -> Action:
    """How a label treats findings; what is no value of it does nothing."""
    return Action(label) if label in {one.value for one in Action} else Action.OFF


def _pods(manifest: Manifest, key: Key) -> Iterator[tuple[str, Body]]:
    """The pods that an object makes; none where a controller adds to what is written."""
    for template in manifest.templates:
        if template.is_completed or template.model_servers:
            continue
        metadata, spec = _plain(template.metadata.node), _plain(template.spec.node)
        # A template has no other metadata that is given to its pods.
        metadata = {part: metadata[part] for part in ("labels", "annotations") if metadata.get(part)}
        metadata |= {"name": key.name, "namespace": key.namespace}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        check_pod(pod, f"{key.kind} {key.namespace}/{key.name}")
        yield template.role, pod


def _plain(node: Node | None) -> dict[str, Any]:
    found = data_of(node) if isinstance(node, MappingNode) else {}
    return found if isinstance(found, dict) else {}
