"""What each addition changes in a pod, as an expression of CEL that gives a JSON Patch.

The names and amounts are those of ``additions``, which Python's completion reads too;
``tests/admission/test_same_completion.py`` holds both together on a real API server. JSON Patch, since lists
such as tolerations are atomic for what CEL applies. Each expression gives nothing for a pod that has the
addition already: the server calls policies again where another one changed something, in no order that is
told. So none depends on what another adds, but for slots, which are additions themselves.
"""

from collections.abc import Callable, Iterable

from gpufleet.admission.additions import (
    DEFAULT_SCHEDULER,
    HAMI,
    OTHER_SHARES,
    OUR_SHARES,
    SERVED,
    SLOT_COUNT,
    TAINT_EFFECT,
    Addition,
)
from gpufleet.admission.cel.pods import Variable, asked_amount, asked_gpus
from gpufleet.admission.cel.words import amount, any_of, is_device, is_whole_match, literal, literals
from gpufleet.admission.completion import COVERS, SECOND_VOLUME
from gpufleet.kube import keys
from gpufleet.lint.objects.shared_memory import DEFAULT_GIB, GIB, MIB
from gpufleet.lint.rules.shared_memory import PLACE, VOLUME
from gpufleet.model.resource_names import MIG_PREFIX, NVIDIA_GPU

SCHEDULER_VARIABLE, TAINTS_VARIABLE = "schedulerName", "taints"
"""Variables that the chart writes anew from its values."""

_SLOT, _GPU = literal(keys.GPU_SHARE), literal(NVIDIA_GPU)
_LIMITS = "'/spec/containers/' + string(i) + '/resources/limits/' + jsonpatch.escapeKey({})"
_REQUESTS = "'/spec/containers/' + string(i) + '/resources/requests/' + jsonpatch.escapeKey({})"


def _variables() -> dict[str, str]:
    """Every variable by its name, each after those that it uses."""
    amounts = "{'limits': dyn(c.?resources.?limits.orValue({})), "
    amounts += "'requests': dyn(c.?resources.?requests.orValue({}))}"
    every = "(variables.containers + variables.initContainers)"
    user, number = literal(keys.KAI_CONTAINER), literal(keys.VOLCANO_NUMBER)
    of_hami = f"{literals(HAMI)}.exists(key, key in variables.containers[i].limits)"
    told = f"{literals(OUR_SHARES)}.exists(key, key in variables.annotations || key in variables.labels)"
    told += f" || {literals(OTHER_SHARES)}.exists(key, key in variables.annotations)"
    served = f"(k in {literals(SERVED)} || k.startsWith({literal(MIG_PREFIX)}))"
    indices = "lists.range(size(variables.containers))"
    return {
        "annotations": "object.metadata.?annotations.orValue({})",
        "labels": "object.metadata.?labels.orValue({})",
        "containers": f"object.spec.containers.map(c, {amounts})",
        "initContainers": f"object.spec.?initContainers.orValue([]).map(c, {amounts})",
        "described": told,
        "asks": f"variables.described || {every}.exists(c, {asked_gpus()}.exists(k, {served}))",
        "slotted": f"{every}.exists(c, {_SLOT} in c.limits)",
        "hami": f"{indices}.filter(i, {_GPU} in variables.containers[i].limits && {of_hami})",
        "volcano": f"{indices}.filter(i, {number} in variables.containers[i].limits)",
        "user": f"{user} in variables.annotations ? "
        f"object.spec.containers.map(c, c.name).indexOf(variables.annotations[{user}]) : 0",
        "devices": f"variables.annotations[?{literal(keys.KAI_DEVICES)}].orValue('1')",
        "tolerated": "object.spec.?tolerations.orValue([]).map(t, t.?key.orValue(''))",
        SCHEDULER_VARIABLE: literal(keys.SCHEDULER_NAME),
        TAINTS_VARIABLE: "[]",
        **_memory_variables(),
    }


def _memory_variables() -> dict[str, str]:
    count = amount(asked_amount())
    more = f"isQuantity({count}) && quantity({count}).compareTo(quantity('1')) > 0"
    several = f"[variables.containers[i]].exists(c, {asked_gpus()}.exists(k, {is_device('k')} && {more}))"
    paths = any_of(f"m.mountPath.matches({literal(f'^{one}/*$')})" for one in sorted(COVERS))
    covered = f"object.spec.containers[i].?volumeMounts.orValue([]).exists(m, {paths})"
    limit = "quantity(string(variables.containers[i].limits['memory']))"
    # A part of a byte counts as one, as in Python.
    in_bytes = f"({limit}.isInteger() ? {limit}.asInteger() : int({limit}.asApproximateFloat()) + 1)"
    has_limit = "'memory' in variables.containers[i].limits"
    least, half = "variables.memoryLimits.min()", "(variables.memoryLimits.min() / 2)"
    default = f"size(variables.memoryLimits) == 0 || {least} >= {2 * DEFAULT_GIB * GIB} ? '{DEFAULT_GIB}Gi'"
    gibibytes, mebibytes = f"string({half} / {GIB}) + 'Gi'", f"string({half} / {MIB}) + 'Mi'"
    size = f"{default} : {least} < 2 ? '1' : {half} < {MIB} ? string({half}) : "
    size += f"{half} % {GIB} == 0 ? {gibibytes} : {mebibytes}"
    taken = "object.spec.?volumes.orValue([]).map(v, v.name)"
    return {
        "lacking": f"lists.range(size(variables.containers)).filter(i, {several} && !{covered})",
        "memoryLimits": f"variables.lacking.filter(i, {has_limit}).map(i, {in_bytes})",
        "size": size,
        "taken": taken,
        "volume": f"{literal(VOLUME)} in variables.taken ? {literal(SECOND_VOLUME)} : {literal(VOLUME)}",
    }


def used_variables(expression: str) -> tuple[Variable, ...]:
    """The variables that an expression needs, each after those that it uses itself."""
    every = _variables()
    wanted: set[str] = set()
    left = _named_in(expression, every)
    while left:
        name = left.pop()
        wanted.add(name)
        left |= _named_in(every[name], every) - wanted
    return tuple(Variable(name, text) for name, text in every.items() if name in wanted)


def inlined(expression: str) -> str:
    """The expression with what its variables stand for: conditions of a policy can read none."""
    every = _variables()
    for name in reversed(every):
        expression = _replaced(expression, name, f"({every[name]})")
    return expression


def _replaced(expression: str, name: str, text: str) -> str:
    first, *parts = expression.split(f"variables.{name}")
    for part in parts:
        is_longer = part[:1].isalnum() or part[:1] == "_"
        first += (f"variables.{name}" if is_longer else text) + part
    return first


def _named_in(expression: str, names: Iterable[str]) -> set[str]:
    return {name for name in names if is_named(name, expression)}


def is_named(name: str, expression: str) -> bool:
    """Whether an expression reads the variable of this name."""
    parts = expression.split(f"variables.{name}")[1:]
    return any(not (part[:1].isalnum() or part[:1] == "_") for part in parts)


def _scheduler() -> str:
    is_default = (
        f"object.spec.?schedulerName.orValue({literal(DEFAULT_SCHEDULER)}) == {literal(DEFAULT_SCHEDULER)}"
    )
    value = f"variables.{SCHEDULER_VARIABLE}"
    return f"variables.asks && {is_default} ? [{_patch('/spec/schedulerName', value)}] : []"


def _shared_toleration() -> str:
    key = literal(keys.SHARED_POOL_TAINT)
    return _tolerations(f"[{key}]", "{'key': k, 'operator': 'Exists'}")


def _pool_tolerations() -> str:
    value = f"{{'key': k, 'operator': 'Exists', 'effect': {literal(TAINT_EFFECT)}}}"
    return _tolerations(f"variables.{TAINTS_VARIABLE}", value)


def _tolerations(wanted: str, value: str) -> str:
    added = f"{wanted}.filter(k, !(k in variables.tolerated) && !('' in variables.tolerated))"
    one = f"JSONPatch{{op: 'add', path: '/spec/tolerations/-', value: {value}}}"
    new = _patch("/spec/tolerations", f"{added}.map(k, {value})")
    first = f"size({added}) == 0 ? [] : [{new}]"
    return f"!variables.asks ? [] : has(object.spec.tolerations) ? {added}.map(k, {one}) : ({first})"


def _described_slot() -> str:
    others = (
        "variables.slotted || variables.user < 0 || size(variables.hami) > 0 || size(variables.volcano) > 0"
    )
    count = is_whole_match("variables.devices", SLOT_COUNT)
    place = "[variables.user].map(i, "
    full = f"JSONPatch{{op: 'add', path: {_LIMITS.format(_SLOT)}, value: variables.devices}}"
    path = "'/spec/containers/' + string(i) + '/resources/limits'"
    first = f"JSONPatch{{op: 'add', path: {path}, value: {{{_SLOT}: variables.devices}}}}"
    has_limits = "object.spec.containers[variables.user].?resources.?limits.hasValue()"
    return (
        f"!variables.described || {others} || !{count} ? [] : {has_limits} ? {place}{full}) : {place}{first})"
    )


def _hami_slots() -> str:
    value = f"string(variables.containers[i].limits[{_GPU}])"
    added = f"JSONPatch{{op: 'add', path: {_LIMITS.format(_SLOT)}, value: {value}}}"
    taken = f"JSONPatch{{op: 'remove', path: {_LIMITS.format(_GPU)}}}"
    asked = f"variables.hami.filter(i, {_GPU} in variables.containers[i].requests)"
    asked += f".map(i, JSONPatch{{op: 'remove', path: {_REQUESTS.format(_GPU)}}})"
    return f"variables.slotted ? [] : variables.hami.map(i, [{added}, {taken}]).flatten() + {asked}"


def _volcano_slots() -> str:
    value = f"string(variables.containers[i].limits[{literal(keys.VOLCANO_NUMBER)}])"
    added = f"JSONPatch{{op: 'add', path: {_LIMITS.format(_SLOT)}, value: {value}}}"
    # Where both notations stand, HAMI's slots come first in whichever order the policies are called.
    return f"variables.slotted || size(variables.hami) > 0 ? [] : variables.volcano.map(i, {added})"


def _runtime_class() -> str:
    """The class is a parameter of the policy, so that one that is not there is given to no pod."""
    selected = "object.spec.?nodeSelector.orValue({})"
    demanded = "params.?scheduling.?nodeSelector.orValue({})"
    fits = f"{demanded}.all(k, !(k in {selected}) || {selected}[k] == {demanded}[k])"
    given = f"variables.asks && !has(object.spec.runtimeClassName) && !has(params.overhead) && {fits}"
    return f"{given} ? [{_patch('/spec/runtimeClassName', 'params.metadata.name')}] : []"


def _shared_memory() -> str:
    name = "variables.volume"
    volume = f"{{'name': dyn({name}), 'emptyDir': dyn({{'medium': 'Memory', 'sizeLimit': variables.size}})}}"
    mount = f"{{'name': {name}, 'mountPath': {literal(PLACE)}}}"
    volumes = _appended("object.spec.?volumes.orValue([])", "'/spec/volumes'", volume)
    path = "'/spec/containers/' + string(i) + '/volumeMounts'"
    mounts = _appended("object.spec.containers[i].?volumeMounts.orValue([])", path, mount)
    none = f"!variables.asks || size(variables.lacking) == 0 || {name} in variables.taken"
    none += " || object.spec.?hostIPC.orValue(false)"
    return f"{none} ? [] : [{volumes}] + variables.lacking.map(i, {mounts})"


def _appended(known: str, path: str, value: str) -> str:
    """An item at the end of a list, which may not be there."""
    last = f"JSONPatch{{op: 'add', path: {path} + '/-', value: {value}}}"
    first = f"JSONPatch{{op: 'add', path: {path}, value: [{value}]}}"
    return f"(size({known}) > 0 ? {last} : {first})"


def _patch(path: str, value: str) -> str:
    return f"JSONPatch{{op: 'add', path: {literal(path)}, value: {value}}}"


_UNSLOTTED = "!variables.slotted"
_NO_TAINTS = "[].exists(k, !(k in variables.tolerated)) && variables.asks"
"""The chart writes its taints in place of the empty list."""

NEEDS: dict[Addition, str] = {
    Addition.SHARE_SLOT: f"variables.described && {_UNSLOTTED}",
    Addition.HAMI_SLOTS: f"size(variables.hami) > 0 && {_UNSLOTTED}",
    Addition.VOLCANO_SLOTS: f"size(variables.volcano) > 0 && {_UNSLOTTED}",
    Addition.SCHEDULER_NAME: (
        f"object.spec.?schedulerName.orValue({literal(DEFAULT_SCHEDULER)}) == {literal(DEFAULT_SCHEDULER)}"
        " && variables.asks"
    ),
    Addition.SHARED_TOLERATION: (
        f"!({literal(keys.SHARED_POOL_TAINT)} in variables.tolerated) && variables.asks"
    ),
    Addition.POOL_TOLERATIONS: _NO_TAINTS,
    Addition.RUNTIME_CLASS: "!has(object.spec.runtimeClassName) && variables.asks",
    # Slots that another policy adds may be several devices, and what was passed over is not asked again.
    Addition.SHARED_MEMORY: "variables.described || (size(variables.lacking) > 0 && variables.asks)",
}
"""By addition: which pods may need it. A policy that is called costs the server two milliseconds, one whose
condition is false a tenth of that."""

MUTATIONS: dict[Addition, Callable[[], str]] = {
    Addition.SHARE_SLOT: _described_slot,
    Addition.HAMI_SLOTS: _hami_slots,
    Addition.VOLCANO_SLOTS: _volcano_slots,
    Addition.SCHEDULER_NAME: _scheduler,
    Addition.SHARED_TOLERATION: _shared_toleration,
    Addition.POOL_TOLERATIONS: _pool_tolerations,
    Addition.RUNTIME_CLASS: _runtime_class,
    Addition.SHARED_MEMORY: _shared_memory,
}
"""By addition: the maker of its expression."""
