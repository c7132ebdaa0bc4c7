"""Each rule of lint, what judges it at admission, and why: one table that documents and tests keep whole.

A policy of the API server judges where CEL can say the rule: it needs no program of ours. The webhook judges
what CEL cannot say of one object. What depends on other objects, on nodes or on measured use, or on a field
that the server fills in before a judge sees it, is told by an audit: ``gpufleet lint --live``.
"""

import enum
from dataclasses import dataclass

from gpufleet.admission.cel.rules import FINDINGS
from gpufleet.lint.rule import Rule, Scope
from gpufleet.lint.rules import all_rules


class Judge(enum.Enum):
    """What judges a rule."""

    POLICY = "policy"
    WEBHOOK = "webhook"
    AUDIT = "audit"


@dataclass(frozen=True)
class Treatment:
    """How a rule is treated. ``why`` says what keeps it from a judge that needs less; empty for a policy."""

    rule: Rule
    judge: Judge
    why: str = ""


NAMES = "CEL compares no names by their likeness"
COMMAND_LINES = "CEL does not put variables into command lines"
YAML_WITHIN = "CEL does not read YAML within a field"
MODELS = "CEL does not know models and what they need"
OTHER_KINDS = "policies are about kinds that they know"
OTHER_OBJECTS = "other objects tell, which may come later"
FILLED_IN = "the server fills the field in before a judge sees it"
NODES = "the nodes and objects of the cluster tell"
TAGS = "CEL does not know which tags a registry has"
USE = "measured use tells"

WEBHOOK = {
    "GPU003": NAMES,
    "GPU021": COMMAND_LINES,
    "GPU025": COMMAND_LINES,
    "GPU026": MODELS,
    "GPU040": YAML_WITHIN,
    "GPU041": COMMAND_LINES,
    "GPU047": MODELS,
    "GPU048": MODELS,
    "GPU052": COMMAND_LINES,
    "GPU053": NAMES,
    "GPU061": TAGS,
}
"""Rules about one object that CEL cannot say, with the reason."""

AUDIT = {
    "GPU023": OTHER_OBJECTS,
    "GPU027": OTHER_OBJECTS,
    "GPU028": OTHER_OBJECTS,
    "GPU030": OTHER_OBJECTS,
    "GPU031": OTHER_OBJECTS,
    "GPU032": OTHER_OBJECTS,
    "GPU033": OTHER_OBJECTS,
    "GPU034": OTHER_OBJECTS,
    "GPU035": OTHER_OBJECTS,
    "GPU036": FILLED_IN,
    "GPU037": FILLED_IN,
    "GPU038": OTHER_OBJECTS,
    "GPU050": OTHER_OBJECTS,
    "GPU051": OTHER_OBJECTS,
    "GPU054": OTHER_OBJECTS,
    "GPU055": OTHER_KINDS,
    "GPU056": OTHER_KINDS,
    "GPU057": OTHER_KINDS,
    "GPU058": OTHER_KINDS,
    "GPU059": OTHER_KINDS,
    "GPU060": FILLED_IN,
}
"""Rules that one object does not tell of, with the reason."""


def treatments() -> tuple[Treatment, ...]:
    """Every rule, by id."""
    return tuple(_of(rule) for rule in all_rules())


def judged_by(judge: Judge) -> tuple[Rule, ...]:
    """The rules of this judge, by id."""
    return tuple(one.rule for one in treatments() if one.judge is judge)


def _of(rule: Rule) -> Treatment:
    if rule.id in FINDINGS:
        return Treatment(rule, Judge.POLICY)
    if rule.id in WEBHOOK:
        return Treatment(rule, Judge.WEBHOOK, WEBHOOK[rule.id])
    if rule.scope is Scope.RUNTIME:
        return Treatment(rule, Judge.AUDIT, USE)
    if rule.scope is Scope.CLUSTER:
        return Treatment(rule, Judge.AUDIT, NODES)
    return Treatment(rule, Judge.AUDIT, AUDIT[rule.id])
