"""What a pod lacks, as an expression of CEL that gives one JSON Patch with all additions.

The names and amounts are those of ``additions``, which Python's completion reads too;
``tests/admission/test_same_completion.py`` holds both together on a real API server. JSON Patch, since lists
such as tolerations are atomic for what CEL applies. The expression gives nothing for a pod that has all of it
already: the server calls a policy again where another one changed something. One patch, since each costs the
server about two milliseconds: it writes the whole pod as JSON, and reads it again.
"""

from collections.abc import Iterable

from gpufleet.admission.cel.pods import Variable, asked_amount, asked_gpus
from gpufleet.admission.cel.words import amount, any_of, is_device, is_whole_match, literal, literals
from gpufleet.completion.additions import (
    DEFAULT_SCHEDULER,
    HAMI,
    OTHER_SHARES,
    OUR_SHARES,
    SERVED,
    SLOT_COUNT,
    TAINT_EFFECT,
    WITHOUT_SETTINGS,
    Addition,
)
from gpufleet.completion.completing import COVERS, SECOND_VOLUME
from gpufleet.kube import keys
from gpufleet.lint.objects.shared_memory import DEFAULT_GIB, GIB, MIB
from gpufleet.lint.rules.shared_memory import PLACE, VOLUME
from gpufleet.model.resource_names import MIG_PREFIX, NVIDIA_GPU

ADDITIONS_VARIABLE, SCHEDULER_VARIABLE, TAINTS_VARIABLE = "additions", "schedulerName", "taints"
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
    indices = "lists.range(size(variables.containers))"
    return {
        "annotations": "object.metadata.?annotations.orValue({})",
        "labels": "object.metadata.?labels.orValue({})",
        "containers": f"object.spec.containers.map(c, {amounts})",
        "initContainers": f"object.spec.?initContainers.orValue([]).map(c, {amounts})",
        "described": _described("variables.annotations", "variables.labels"),
        "asks": f"variables.described || {every}.exists(c, {asked_gpus()}.exists(k, {_is_served()}))",
        "slotted": f"{every}.exists(c, {_SLOT} in c.limits)",
        "hami": f"{indices}.filter(i, {_GPU} in variables.containers[i].limits && {of_hami})",
        "volcano": f"{indices}.filter(i, {number} in variables.containers[i].limits)",
        "user": f"{user} in variables.annotations ? "
        f"object.spec.containers.map(c, c.name).indexOf(variables.annotations[{user}]) : 0",
        "devices": f"variables.annotations[?{literal(keys.KAI_DEVICES)}].orValue('1')",
        "tolerated": "object.spec.?tolerations.orValue([]).map(t, t.?key.orValue(''))",
        SCHEDULER_VARIABLE: literal(keys.SCHEDULER_NAME),
        TAINTS_VARIABLE: "[]",
        ADDITIONS_VARIABLE: names_of(WITHOUT_SETTINGS),
        "getsSlot": _gets_slot(),
        "tolerations": _wanted_tolerations(),
        **_memory_variables(),
    }


def names_of(additions: Iterable[Addition]) -> str:
    """The value of the variable that says which additions are made."""
    return literals(one.value for one in additions)


def _is_made(addition: Addition) -> str:
    return f"{literal(addition.value)} in variables.{ADDITIONS_VARIABLE}"


def _is_served() -> str:
    return f"(k in {literals(SERVED)} || k.startsWith({literal(MIG_PREFIX)}))"


def _described(annotations: str, labels: str) -> str:
    ours = f"{literals(OUR_SHARES)}.exists(key, key in {annotations} || key in {labels})"
    return f"{ours} || {literals(OTHER_SHARES)}.exists(key, key in {annotations})"


def may_ask() -> str:
    """Whether a pod names a GPU of ours at all: what most pods do not is found at the least cost."""
    named = f"exists(k, {_is_served()})"
    parts = (f"c.?resources.?{part}.orValue({{}}).{named}" for part in ("limits", "requests"))
    containers = (
        f"object.spec.containers.exists(c, {one}) || object.spec.?initContainers.orValue([]).exists(c, {one})"
        for one in parts
    )
    told = _described("object.metadata.?annotations.orValue({})", "object.metadata.?labels.orValue({})")
    return f"{' || '.join(containers)} || {told}"


NO_TAINTS = "[].map(key, string(key))"
"""An empty list of texts, which the chart finds in the condition and writes anew."""


def may_lack(additions: Iterable[Addition], taints: Iterable[str]) -> str:
    """Whether a pod may lack one of these additions. False once it has all of them.

    The server calls a policy that has changed a pod a second time, and pays for a patch without changes what
    it pays for any other.
    """
    keys_of_taints = f"[{', '.join(map(literal, taints))}]" if taints else NO_TAINTS
    parts = (_lacks_scheduler(), _lacks_toleration(), _lacks_slot(), _lacks_memory())
    lacks = " ||\n".join(f"({one})" for one in parts)
    return f"[{names_of(additions)}].exists(additions, [{keys_of_taints}].exists(taints,\n{lacks}))"


def _is_among(addition: Addition) -> str:
    return f"{literal(addition.value)} in additions"


def _lacks_scheduler() -> str:
    default = literal(DEFAULT_SCHEDULER)
    named = f"object.spec.?schedulerName.orValue({default})"
    return f"{_is_among(Addition.SCHEDULER_NAME)} && {named} == {default}"


def _lacks_toleration() -> str:
    shared = f"{_is_among(Addition.SHARED_TOLERATION)} && !({literal(keys.SHARED_POOL_TAINT)} in tolerated)"
    pool = f"{_is_among(Addition.POOL_TOLERATIONS)} && taints.exists(key, !(key in tolerated))"
    tolerated = "object.spec.?tolerations.orValue([]).map(t, t.?key.orValue(''))"
    return f"[{tolerated}].exists(tolerated, !('' in tolerated) && (({shared}) || ({pool})))"


def _lacks_slot() -> str:
    names = literals((*HAMI, keys.VOLCANO_NUMBER))
    told = _described("object.metadata.?annotations.orValue({})", "object.metadata.?labels.orValue({})")
    is_slotted = f"object.spec.containers.exists(c, {_SLOT} in c.?resources.?limits.orValue({{}}))"
    is_counted = f"c.?resources.?limits.orValue({{}}).exists(k, k in {names})"
    return f"!{is_slotted} && ({told} || object.spec.containers.exists(c, {is_counted}))"


def _lacks_memory() -> str:
    several = "(c.?resources.?limits.orValue({}).exists(k, {0} && string(c.resources.limits[k]) != '1') || "
    several += "c.?resources.?requests.orValue({}).exists(k, {0} && string(c.resources.requests[k]) != '1'))"
    paths = any_of(f"m.mountPath.matches({literal(f'^{one}/*$')})" for one in sorted(COVERS))
    lacks = f"!c.?volumeMounts.orValue([]).exists(m, {paths}) && {several.replace('{0}', is_device('k'))}"
    return f"{_is_among(Addition.SHARED_MEMORY)} && object.spec.containers.exists(c, {lacks})"


def _gets_slot() -> str:
    """Whether the words that ask for a share are all that asks, and say for how many devices."""
    is_alone = "!variables.slotted && size(variables.hami) == 0 && size(variables.volcano) == 0"
    count = is_whole_match("variables.devices", SLOT_COUNT)
    made = _is_made(Addition.SHARE_SLOT)
    return f"variables.described && {made} && {is_alone} && variables.user >= 0 && {count}"


def _wanted_tolerations() -> str:
    """The tolerations that are added: none where the pod tolerates every taint."""
    shared = f"{{'key': {literal(keys.SHARED_POOL_TAINT)}, 'operator': 'Exists'}}"
    # An empty list has no type: string() makes texts of its items for the compiler.
    pool = f"{{'key': string(k), 'operator': 'Exists', 'effect': {literal(TAINT_EFFECT)}}}"
    of_shared = f"({_is_made(Addition.SHARED_TOLERATION)} ? [{shared}] : [])"
    of_pools = f"({_is_made(Addition.POOL_TOLERATIONS)} ? variables.{TAINTS_VARIABLE}.map(k, {pool}) : [])"
    missing = f"({of_shared} + {of_pools}).filter(t, !(t.key in variables.tolerated))"
    return f"'' in variables.tolerated ? [] : {missing}"


def _memory_variables() -> dict[str, str]:
    count = amount(asked_amount())
    more = f"isQuantity({count}) && quantity({count}).compareTo(quantity('1')) > 0"
    several = f"[variables.containers[i]].exists(c, {asked_gpus()}.exists(k, {is_device('k')} && {more}))"
    # Slots that this patch adds may be several devices; other notations name as many before.
    slots = "(variables.getsSlot && i == variables.user && variables.devices != '1')"
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
        "lacking": f"lists.range(size(variables.containers)).filter(i, ({several} || {slots}) && !{covered})",
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


def _named_in(expression: str, names: Iterable[str]) -> set[str]:
    return {name for name in names if _is_named(name, expression)}


def _is_named(name: str, expression: str) -> bool:
    parts = expression.split(f"variables.{name}")[1:]
    return any(not (part[:1].isalnum() or part[:1] == "_") for part in parts)


def completion() -> str:
    """All additions but the runtime class: one list of patches."""
    parts = (_slots(), _scheduler(), _tolerations(), _shared_memory())
    return "!variables.asks ? [] :\n" + " +\n".join(f"({one})" for one in parts)


def _scheduler() -> str:
    is_default = (
        f"object.spec.?schedulerName.orValue({literal(DEFAULT_SCHEDULER)}) == {literal(DEFAULT_SCHEDULER)}"
    )
    added = _patch("/spec/schedulerName", f"variables.{SCHEDULER_VARIABLE}")
    return f"{_is_made(Addition.SCHEDULER_NAME)} && {is_default} ? [{added}] : []"


def _tolerations() -> str:
    one = "JSONPatch{op: 'add', path: '/spec/tolerations/-', value: t}"
    new = _patch("/spec/tolerations", "variables.tolerations")
    each = f"has(object.spec.tolerations) ? variables.tolerations.map(t, {one}) : [{new}]"
    return f"size(variables.tolerations) == 0 ? [] : ({each})"


def _slots() -> str:
    # Of two notations HAMI's slots come before Volcano's, and both before words that ask for a share.
    volcano = f"{_is_made(Addition.VOLCANO_SLOTS)} && size(variables.hami) == 0 ? {_volcano_slots()} : []"
    hami = f"{_is_made(Addition.HAMI_SLOTS)} ? {_hami_slots()} : []"
    return f"variables.slotted ? [] : variables.getsSlot ? {_described_slot()} : ({hami}) + ({volcano})"


def _described_slot() -> str:
    full = f"JSONPatch{{op: 'add', path: {_LIMITS.format(_SLOT)}, value: variables.devices}}"
    path = "'/spec/containers/' + string(i) + '/resources/limits'"
    first = f"JSONPatch{{op: 'add', path: {path}, value: {{{_SLOT}: variables.devices}}}}"
    has_limits = "object.spec.containers[i].?resources.?limits.hasValue()"
    return f"[variables.user].map(i, {has_limits} ? {full} : {first})"


def _hami_slots() -> str:
    value = f"string(variables.containers[i].limits[{_GPU}])"
    added = f"JSONPatch{{op: 'add', path: {_LIMITS.format(_SLOT)}, value: {value}}}"
    taken = f"JSONPatch{{op: 'remove', path: {_LIMITS.format(_GPU)}}}"
    asked = f"variables.hami.filter(i, {_GPU} in variables.containers[i].requests)"
    asked += f".map(i, JSONPatch{{op: 'remove', path: {_REQUESTS.format(_GPU)}}})"
    return f"variables.hami.map(i, [{added}, {taken}]).flatten() + {asked}"


def _volcano_slots() -> str:
    value = f"string(variables.containers[i].limits[{literal(keys.VOLCANO_NUMBER)}])"
    return f"variables.volcano.map(i, JSONPatch{{op: 'add', path: {_LIMITS.format(_SLOT)}, value: {value}}})"


def runtime_class() -> str:
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
    # The cheapest question first: most installations leave this addition out.
    none = f"!({_is_made(Addition.SHARED_MEMORY)}) || size(variables.lacking) == 0"
    none += f" || {name} in variables.taken || object.spec.?hostIPC.orValue(false)"
    return f"{none} ? [] : [{volumes}] + variables.lacking.map(i, {mounts})"


def _appended(known: str, path: str, value: str) -> str:
    """An item at the end of a list, which may not be there."""
    last = f"JSONPatch{{op: 'add', path: {path} + '/-', value: {value}}}"
    first = f"JSONPatch{{op: 'add', path: {path}, value: [{value}]}}"
    return f"(size({known}) > 0 ? {last} : {first})"


def _patch(path: str, value: str) -> str:
    return f"JSONPatch{{op: 'add', path: {literal(path)}, value: {value}}}"
