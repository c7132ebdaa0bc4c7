"""What each rule of lint finds, as an expression of CEL: a list with a text for each finding.

The names, patterns and amounts are those of the rule's own module, so that a change there changes the policy;
``tests/admission`` holds both verdicts together on a real API server. ``cel.pods`` has the variables that
these expressions read, ``policies`` puts them into objects.
"""

from collections.abc import Callable

from gpufleet.admission.cel.words import (
    amount,
    any_of,
    begins_with,
    container_words,
    is_device,
    is_gpu,
    is_whole_match,
    literal,
    literals,
    uses_gpu,
)
from gpufleet.kube.keys import HIDING_VALUES, VISIBLE_DEVICES
from gpufleet.lint.objects.images import MOVING_TAG
from gpufleet.lint.objects.placeholders import PART, WHOLE
from gpufleet.lint.objects.template_paths import PER_NODE
from gpufleet.lint.rules import deprecated_keys, visible_devices_bypass
from gpufleet.lint.rules.device_files import CHANNELS, DEVICE
from gpufleet.lint.rules.hard_coded_index import PICKS, VARIABLES
from gpufleet.lint.rules.host_namespaces import MPS
from gpufleet.lint.rules.toleration_without_gpu import GPU_TAINT
from gpufleet.model.resource_names import MIG_PREFIX

_LIMIT, _REQUEST = amount("c.limits[k]"), amount("c.requests[k]")
_ZERO = "quantity('0')"
_IS_WORKLOAD = "!p.infrastructure"
_IS_GPU_WORKLOAD = f"{uses_gpu()} && !p.infrastructure"
_VALUE = "string(v.?value.orValue(''))"
_FROM_ELSEWHERE = "v.?valueFrom.hasValue()"


def _of_pods(condition: str, findings: str) -> str:
    return f"variables.pods.filter(p, {condition}).map(p, {findings}).flatten()"


def _of_containers(pods: str, condition: str) -> str:
    return _of_pods(pods, f"p.containers.filter(c, {condition}).map(c, {container_words()})")


def _where_gpu_pods(found: str) -> str:
    """Most rules concern objects with pods on GPUs alone."""
    return f"!variables.hasGpuPods ? [] : {found}"


def _any_variable(condition: str) -> str:
    return f"c.source.?env.orValue([]).exists(v, {condition})"


def _request_equals_limit() -> str:
    none = "(!(k in c.limits) || c.limits[k] == null)"
    both = f"(isQuantity({_LIMIT}) && isQuantity({_REQUEST}))"
    differ = f"(isQuantity({_LIMIT}) != isQuantity({_REQUEST}) || ({both} && "
    differ += f"quantity({_LIMIT}).compareTo(quantity({_REQUEST})) != 0))"
    wrong = f"c.requests.exists(k, {is_gpu('k')} && c.requests[k] != null && ({none} || {differ}))"
    return _where_gpu_pods(_of_containers("true", wrong))


def _whole_numbers() -> str:
    def wrong(text: str) -> str:
        no_whole = f"(!isQuantity({text}) || !quantity({text}).isInteger() || "
        no_whole += f"quantity({text}).compareTo({_ZERO}) < 0)"
        return f"{is_gpu('k')} && !{is_whole_match(text, WHOLE)} && {no_whole}"

    both = any_of((f"c.limits.exists(k, {wrong(_LIMIT)})", f"c.requests.exists(k, {wrong(_REQUEST)})"))
    return _where_gpu_pods(_of_containers("true", both))


def _given(name: str) -> str:
    """Whether the device plugin of the resource may set the variable itself."""
    return " || ".join(f"{name}.startsWith({literal(one)})" for one in visible_devices_bypass.GIVEN)


def _visible_devices() -> str:
    named = f"v.?name.orValue('') == {literal(VISIBLE_DEVICES)} && !c.gpus.exists(k, {_given('k')})"
    others = f"v.?name.orValue('') in {literals(visible_devices_bypass.BESIDE_A_GPU_TOO)}"
    shows = f"({_FROM_ELSEWHERE} || !({_VALUE} in {literals(HIDING_VALUES)}))"
    return _of_containers(_IS_WORKLOAD, _any_variable(f"(({named}) || {others}) && {shows}"))


def _hard_coded_index() -> str:
    picks = f"v.?name.orValue('') in {literals(VARIABLES)} && {begins_with(_VALUE, PICKS)}"
    given = f"c.gpus.exists(k, {_given('k')})"
    opens = f"v.?name.orValue('') == {literal(VISIBLE_DEVICES)} && {given}"
    opens += f" && !({_VALUE} in {literals(HIDING_VALUES)})"
    wrong = f"!{_FROM_ELSEWHERE} && (({picks}) || ({opens}))"
    return _where_gpu_pods(_of_containers(_IS_WORKLOAD, _any_variable(wrong)))


def _privileged() -> str:
    return _of_containers(_IS_GPU_WORKLOAD, "c.source.?securityContext.?privileged.orValue(false) == true")


def _device_files() -> str:
    path = "string(v.?hostPath.?path.orValue(''))"
    is_all = f"{path}.matches('^/dev/*$')"
    is_device = f"{is_whole_match(path, DEVICE)} && !{is_whole_match(path, CHANNELS)}"
    files = f"{is_device} && (!{is_all} || {uses_gpu()})"
    volumes = f"p.template.?spec.?volumes.orValue([]).filter(v, {files})"
    return _of_pods(_IS_WORKLOAD, f"{volumes}.map(v, 'volume ' + string(v.?name.orValue('')))")


def _host_namespaces() -> str:
    is_client = f"v.?name.orValue('') == {literal(MPS)}"
    clients = f"p.containers.exists(c, {_any_variable(is_client)})"
    processes = "p.template.?spec.?hostPID.orValue(false) == true ? ['hostPID'] : []"
    memory = f"p.template.?spec.?hostIPC.orValue(false) == true && !{clients} ? ['hostIPC'] : []"
    return _of_pods(_IS_GPU_WORKLOAD, f"({processes}) + ({memory})")


def _unpinned_image() -> str:
    image = "string(c.source.?image.orValue(''))"
    moves = f"{image}.matches('^([^@]*/)?[^/@:]*(:({MOVING_TAG}))?@?$')"
    left_open = f"{image}.matches({literal(PART.pattern + '[^/]*$')})"
    holds = "(size(c.gpus) > 0 || size(c.source.?resources.?claims.orValue([])) > 0 || c.isForGpus)"
    return _where_gpu_pods(_of_containers("true", f"{image} != '' && {moves} && !{left_open} && {holds}"))


def _toleration_without_gpu() -> str:
    key = "string(t.?key.orValue(''))"
    held = f"p.template.?spec.?tolerations.orValue([]).filter(t, {is_whole_match(key, GPU_TAINT)})"
    without = f"!{uses_gpu()} && !p.infrastructure && p.template.?spec.?containers.hasValue()"
    found = _of_pods(without, f"{held}.map(t, 'the toleration of ' + {key})")
    return f"object.kind == {literal(PER_NODE)} ? [] : {found}"


def _deprecated_keys() -> str:
    labels = literals(deprecated_keys.NODE_LABELS)
    spec = "p.template.?spec"
    selector = f"{spec}.?nodeSelector.orValue({{}})"
    annotations = "p.template.?metadata.?annotations.orValue({})"
    affinity = f"{spec}.?affinity.?nodeAffinity"
    terms = (
        f"({affinity}.?requiredDuringSchedulingIgnoredDuringExecution.?nodeSelectorTerms.orValue([])"
        f" + {affinity}.?preferredDuringSchedulingIgnoredDuringExecution.orValue([])"
        ".filter(one, one.?preference.hasValue()).map(one, one.preference))"
    )
    keys = f"{terms}.map(one, one.?matchExpressions.orValue([]).map(e, string(e.?key.orValue('')))).flatten()"
    resources = "(c.limits.map(k, string(k)) + c.requests.map(k, string(k)))"
    resources += f".filter(k, k in {literals(deprecated_keys.RESOURCES)})"
    cloud = literal(deprecated_keys.OF_ONE_CLOUD)
    parts = (
        f"{selector}.filter(k, k in {labels}).map(k, string(k))",
        f"{annotations}.filter(k, k in {literals(deprecated_keys.ANNOTATIONS)}).map(k, string(k))",
        f"{keys}.filter(k, k in {labels})",
        f"p.containers.map(c, {resources}).flatten()",
        f"({selector}[?{cloud}].orValue('') == 'nvidia' ? [{cloud}] : [])",
    )
    return _of_pods(_IS_GPU_WORKLOAD, " + ".join(parts))


def _memory_volume() -> str:
    size, memory = amount("v.emptyDir.?sizeLimit.orValue(null)"), amount("c.limits['memory']")
    writes = "c.source.?volumeMounts.orValue([]).exists(m, m.?name.orValue('') == v.?name.orValue(''))"
    more = f"'memory' in c.limits && isQuantity({memory}) && {writes} && "
    more += f"quantity({size}).compareTo(quantity({memory})) > 0"
    wrong = f"(!isQuantity({size}) || p.containers.exists(c, {more}))"
    volumes = "p.template.?spec.?volumes.orValue([])"
    volumes += f".filter(v, v.?emptyDir.?medium.orValue('') == 'Memory' && {wrong})"
    found = _of_pods(uses_gpu(), f"{volumes}.map(v, 'volume ' + string(v.?name.orValue('')))")
    return _where_gpu_pods(found)


def _several_mig_devices() -> str:
    counted = f"c.limits.filter(k, k.startsWith({literal(MIG_PREFIX)}) && isQuantity({_LIMIT}))"
    several = f"{counted}.map(k, quantity({_LIMIT}).asApproximateFloat()).sum() > 1.0"
    return _where_gpu_pods(_of_containers("true", several))


def _several_gpu_containers() -> str:
    asked = amount("(k in c.limits ? c.limits[k] : c.requests[k])")
    counted = f"c.gpus.filter(k, {is_device('k')} && isQuantity({asked}))"
    count = f"{counted}.map(k, quantity({asked}).asApproximateFloat()).sum()"
    holders = f"p.containers.filter(c, {count} != 0.0)"
    several = f"size({holders}) < 2 ? [] : {holders}.map(c, {container_words()})"
    return _where_gpu_pods(_of_pods(_IS_WORKLOAD, f"({several})"))


FINDINGS: dict[str, Callable[[], str]] = {
    "GPU001": _request_equals_limit,
    "GPU002": _whole_numbers,
    "GPU004": _visible_devices,
    "GPU005": _hard_coded_index,
    "GPU006": _privileged,
    "GPU007": _device_files,
    "GPU008": _host_namespaces,
    "GPU011": _unpinned_image,
    "GPU017": _toleration_without_gpu,
    "GPU020": _deprecated_keys,
    "GPU022": _memory_volume,
    "GPU044": _several_mig_devices,
    "GPU045": _several_gpu_containers,
}
"""By id of a rule: the maker of its expression."""
