"""On a real API server: which FleetQueues it takes, what people see of them, and who may write what."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpufleet.cli.main import main
from gpufleet.cluster.queues.queue_figures import QueueFigures, ResourceFigures
from gpufleet.kube.codec.fleet_queues import read_fleet_queue
from gpufleet.kube.codec.queue_status import QueueCondition, queue_status, status_patch
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.manifests import DEFAULT_IDENTITY
from gpufleet.kube.objects.fleet_queues import FleetQueue, FleetQueueStatus, PastUseStatus, status_of
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.model.identifiers import QueueName, QuotaResource
from tests.kube.codec.queue_cases import CASES, Case
from tests.kube.manifests.real_server import Person, install_all, until
from tests.localkube.cluster import a_cluster, program

IMPORTED = Path(__file__).parents[2] / "migration" / "cases"
QUEUES = "/apis/gpufleet.io/v1alpha1/fleetqueues"
PATHS = {"FleetQueue": QUEUES, "FleetPolicy": "/apis/gpufleet.io/v1alpha1/fleetpolicies"}
"""Where what is imported goes, by its kind."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster in which everything is installed."""
    with a_cluster(tmp_path_factory.mktemp("queues")) as cluster:
        install_all(cluster)
        yield cluster


@pytest.fixture(scope="module")
def admin(installed: LocalCluster) -> Iterator[Person]:
    """Somebody who may do everything."""
    with Person(installed, "root", ("system:masters",)) as person:
        yield person


def queue(name: str, **spec: Any) -> dict[str, Any]:
    kind = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue"}
    return {**kind, "metadata": {"name": name}, "spec": spec}


def unless_refused(answer: tuple[int, dict[str, Any]]) -> dict[str, Any]:
    status, found = answer
    assert status in {200, 201}, found
    return found


@pytest.mark.parametrize("case", CASES, ids=str)
def test_verdict(admin: Person, case: Case) -> None:
    status, answer = admin.ask("POST", f"{QUEUES}?dryRun=All", case.object())
    assert (status == 201) == case.stored, answer
    if not case.stored:
        assert status in {400, 422}
    elif not case.refused:
        stored = msgspec.json.decode(json.dumps(answer).encode(), type=FleetQueue)
        wanted = msgspec.json.decode(
            json.dumps(case.object() | {"metadata": answer["metadata"]}).encode(), type=FleetQueue
        )
        # The definition's defaults are the codec's.
        assert read_fleet_queue(stored) == read_fleet_queue(wanted)


AMOUNTS = st.one_of(
    st.integers(-1, 2**64),
    st.sampled_from(
        ["64Pi", "64.1Pi", "1E", "72057594037927936m", "72057594037927937m", "1Mi", "1Ki", "1", "0"]
    ),
    st.from_regex(r"[0-9]{1,20}([.][0-9]{0,5})?([numkMGTPE]|[KMGTPE]i|e[0-9]{1,2})?", fullmatch=True),
    st.text("0123456789.+-eEKiMGm ", max_size=8),
)
RESOURCES = st.one_of(
    st.sampled_from(
        ["gpu", "gpu-memory", "mig-slices", "cpu", "memory", "ephemeral-storage", "cost", "gpus"]
    ),
    st.sampled_from(["gpu/T4", "gpu/", "gpu/no model/of ours", "gpu/-", "hugepages-2Mi", "example.com/fpga"]),
    st.sampled_from(
        ["nvidia.com/gpu", "kubernetes.io/x", "a.kubernetes.io/x", "requests.a.b/c", "a/b/c", "/x"]
    ),
    st.text("abz019-._/", max_size=20),
    st.integers(240, 253).map(lambda length: "a" * length + "/b"),
)
LENGTHS = st.one_of(
    st.sampled_from(["36500d", "36500d1ms", "Never", "0s", "1h30m", "1.5h", "", "36499d24h", "7"]),
    st.from_regex(r"([0-9]{1,9}(ms|s|m|h|d)){1,3}", fullmatch=True),
)
WORDS = st.text("abAB019-._/ ", max_size=12)
KEYS = st.one_of(
    WORDS, st.sampled_from(["team", "a.b/c", "a" * 63, "a" * 64, "A/b", "a" * 253 + "/b", "a" * 254 + "/b"])
)
TERMS = st.fixed_dictionaries(
    {"key": KEYS, "operator": st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt"])},
    optional={"values": st.lists(WORDS, max_size=2, unique=True)},
)
QUOTAS = st.fixed_dictionaries(
    {"resource": RESOURCES},
    optional=dict.fromkeys(("nominal", "borrowingLimit", "lendingLimit", "hardLimit"), AMOUNTS),
)
SPECS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "parent": WORDS,
        "weight": AMOUNTS,
        "priority": st.integers(-(2**33), 2**33),
        "quotas": st.lists(QUOTAS, max_size=2),
        "prices": st.lists(st.fixed_dictionaries({"model": WORDS, "price": AMOUNTS}), max_size=2),
        "halfLife": LENGTHS,
        "runTimeMax": LENGTHS,
        "reserveAfter": LENGTHS,
        "preemption": st.fixed_dictionaries({}, optional={"preemptAfter": LENGTHS, "reclaimAfter": LENGTHS}),
        "namespaces": st.lists(KEYS, max_size=2),
        "namespaceSelector": st.fixed_dictionaries(
            {},
            optional={
                "matchLabels": st.dictionaries(KEYS, WORDS, max_size=2),
                "matchExpressions": st.lists(TERMS, max_size=2),
            },
        ),
        "localQueues": st.lists(st.fixed_dictionaries({"namespace": KEYS, "name": WORDS}), max_size=2),
    },
)
ONE_FIELD = SPECS.flatmap(
    lambda spec: st.just({}) if not spec else st.sampled_from(sorted(spec)).map(lambda key: {key: spec[key]})
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(spec=st.one_of(ONE_FIELD, SPECS))
def test_what_the_server_takes_the_codec_takes(admin: Person, spec: dict[str, Any]) -> None:
    status, answer = admin.ask("POST", f"{QUEUES}?dryRun=All", queue("random", **spec))
    if status != 201:
        assert status in {400, 422}, answer
        return
    # Only the catalogue of models tells which names are of one model, and which of several.
    with suppress_catalogue():
        read_fleet_queue(msgspec.json.decode(json.dumps(answer).encode(), type=FleetQueue))


@contextmanager
def suppress_catalogue() -> Iterator[None]:
    try:
        yield
    except ObjectError as problem:
        if not any(words in str(problem) for words in ("several models", "twice")):
            raise


def test_the_definitions_defaults_are_shown(admin: Person) -> None:
    found = unless_refused(admin.ask("POST", f"{QUEUES}?dryRun=All", queue("team-a", preemption={})))
    assert found["spec"] == {
        "priority": 0,
        "weight": 1,
        "ordering": "BestEffort",
        "state": "Open",
        "preemption": {"withinQueue": "LowerPriority", "reclaim": "Any", "borrowing": "Never"},
    }


def test_an_edit_is_held_to_the_same_rules(admin: Person) -> None:
    quotas = [{"resource": "gpu", "nominal": 8, "lendingLimit": 8}]
    unless_refused(admin.ask("POST", QUEUES, queue("edited", quotas=quotas)))
    cut = {"spec": {"quotas": [{"resource": "gpu", "nominal": 7, "lendingLimit": 8}]}}
    status, answer = admin.merge(f"{QUEUES}/edited", cut)
    assert status == 422
    assert answer["details"]["causes"][0]["field"] == "spec.quotas[0].lendingLimit"
    assert admin.merge(f"{QUEUES}/edited", {"spec": {"parent": "edited"}})[0] == 422


def test_the_status_belongs_to_the_scheduler(installed: LocalCluster, admin: Person) -> None:
    unless_refused(admin.ask("POST", QUEUES, {**queue("told"), "status": {"share": "7"}}))
    assert "status" not in admin.ask("GET", f"{QUEUES}/told")[1]
    told = {"status": {"share": "0.25", "pending": {"pods": 3, "reasons": [{"reason": "Quota", "pods": 3}]}}}
    with Person(installed, DEFAULT_IDENTITY.user, DEFAULT_IDENTITY.groups) as scheduler:
        found = unless_refused(scheduler.merge(f"{QUEUES}/told/status", told))
        assert found["status"] == told["status"]
        assert scheduler.merge(f"{QUEUES}/told", {"spec": {"state": "Stopped"}})[0] == 403
        assert scheduler.ask("DELETE", f"{QUEUES}/told")[0] == 403
        assert scheduler.ask("POST", QUEUES, queue("another"))[0] == 403
        assert scheduler.ask("GET", QUEUES)[0] == 200
    with Person(installed, "somebody") as stranger:
        assert stranger.ask("GET", QUEUES)[0] == 403


def test_a_status_is_written_on_the_version_that_it_is_about(installed: LocalCluster, admin: Person) -> None:
    made = unless_refused(admin.ask("POST", QUEUES, queue("versioned")))
    version = made["metadata"]["resourceVersion"]
    foreign = {"status": {"share": "7", "dominantResource": "cpu"}}
    past = PastUseStatus("gpu", 1_770_000_000_000_000, 8000, "-524288", "32000000000")
    gpus = ResourceFigures(QuotaResource("gpu"), 9500, 1500, 0, 8000, 7250)
    figures = QueueFigures(QueueName("versioned"), (gpus,), {"quota": 2}, share_milli=125, past_use=(past,))
    now = datetime(2026, 1, 31, 12, tzinfo=UTC)
    active = QueueCondition("Active", holds=True, reason="InForce", message="its quotas are in force")
    status = queue_status(FleetQueueStatus(), [active], figures, 1, now)
    changed = unless_refused(admin.merge(f"{QUEUES}/versioned/status", foreign))
    with Person(installed, DEFAULT_IDENTITY.user, DEFAULT_IDENTITY.groups) as scheduler:

        def written(version: str) -> tuple[int, dict[str, Any]]:
            return scheduler.merge(f"{QUEUES}/versioned/status", json.loads(status_patch(status, version)))

        assert written(version)[0] == 409
        found = unless_refused(written(changed["metadata"]["resourceVersion"]))
    told = status_of(msgspec.json.decode(json.dumps(found).encode(), type=FleetQueue))
    # Nobody else's word is left, and reading it back makes no further write.
    assert told == status


def kubectl(cluster: LocalCluster, *arguments: str) -> str:
    command = (str(program("kubectl")), f"--kubeconfig={cluster.kubeconfig}", *arguments)
    return subprocess.check_output(command, text=True)


def test_what_people_see(installed: LocalCluster, admin: Person) -> None:
    quotas = [{"resource": "gpu", "nominal": 8}]
    unless_refused(admin.ask("POST", QUEUES, queue("seen", parent="research", quotas=quotas)))
    status = {
        "conditions": [
            {
                "type": "Active",
                "status": "False",
                "reason": "ParentMissing",
                "message": "there is no queue research",
                "lastTransitionTime": "2026-01-31T12:00:00Z",
            }
        ],
        "resources": [{"resource": "gpu", "used": "9500m", "borrowed": "1500m"}],
        "pending": {"pods": 3},
    }
    unless_refused(admin.merge(f"{QUEUES}/seen/status", {"status": status}))
    lines = kubectl(installed, "get", "fq", "seen").splitlines()
    assert lines[0].split() == [
        "NAME",
        "PARENT",
        "STATE",
        "GPUS",
        "USED",
        "BORROWED",
        "PENDING",
        "ACTIVE",
        "AGE",
    ]
    assert lines[1].split()[:-1] == ["seen", "research", "Open", "8", "9500m", "1500m", "3", "False"]
    explained = kubectl(installed, "explain", "fleetqueue.spec.quotas.lendingLimit")
    assert "How much of its own it lends to others" in explained


@pytest.mark.parametrize("path", sorted(IMPORTED.glob("*.out.yaml")), ids=lambda path: path.stem)
def test_what_is_imported_can_be_applied(admin: Person, path: Path) -> None:
    for text in path.read_text(encoding="utf-8").split("\n---\n"):
        made = msgspec.yaml.decode(text)
        unless_refused(admin.ask("POST", f"{PATHS[made['kind']]}?dryRun=All", made))


def test_the_queues_of_a_cluster_are_imported(
    installed: LocalCluster, admin: Person, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", "volcano", f"--kubeconfig={installed.kubeconfig}"]) == 2
    assert "the cluster serves no Queue of scheduling.volcano.sh" in capsys.readouterr().err
    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": loose}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "queues.scheduling.volcano.sh"},
        "spec": {
            "group": "scheduling.volcano.sh",
            "scope": "Cluster",
            "names": {"kind": "Queue", "plural": "queues"},
            "versions": [version],
        },
    }
    unless_refused(admin.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition))
    theirs = "/apis/scheduling.volcano.sh/v1beta1/queues"
    with installed.api() as api:
        until(lambda: api.request("GET", theirs)[0] == 200)
    (given,) = (
        msgspec.yaml.decode(text)
        for text in (IMPORTED / "volcano-capacity.yaml").read_text(encoding="utf-8").split("\n---\n")
        if "name: team-b" in text
    )
    unless_refused(admin.ask("POST", theirs, given))
    assert main(["import", "volcano", f"--kubeconfig={installed.kubeconfig}"]) == 0
    said = capsys.readouterr()
    assert "2 queues of Volcano" in said.err
    for text in said.out.split("\n---\n"):
        made = msgspec.yaml.decode(text)
        unless_refused(admin.ask("POST", f"{PATHS[made['kind']]}?dryRun=All", made))
