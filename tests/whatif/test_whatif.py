"""What changes would bring: the difference first, true to what the engine decides, and nothing is changed."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpufleet.cli.main import main
from gpufleet.cluster.settings import Settings
from gpufleet.kube import resources
from gpufleet.kube.objects.node import Node
from gpufleet.kube.objects.node_data import NodeData
from gpufleet.kube.objects.resource_slices import ResourceSliceObject
from gpufleet.model.model_errors import InputError
from gpufleet.whatif.answer import Answer, Ready, Start
from gpufleet.whatif.command import answer_of
from gpufleet.whatif.request import (
    AddNodes,
    Request,
    SetQuota,
    Submitted,
    read_add_nodes,
    read_set_quota,
)
from tests.cluster.snapshots.small_snapshots import AT, QUEUE, Fleet

SETTINGS = Settings(identity="test")


def two_teams() -> Fleet:
    """Two nodes of four GPUs, full of team-b's evaluations: four GPUs of its own, four of team-a's."""
    fleet = Fleet()
    for name in ("gpu-1", "gpu-2"):
        fleet.node(name)
    fleet.queue("root", gpu=0)
    fleet.queue("team-a", gpu=4, parent="root")
    fleet.queue("team-b", gpu=4, parent="root")
    for number in range(4):
        node, devices = ("gpu-1", "gpu-2")[number // 2], ("01", "23")[number % 2]
        name = f"eval-{number}"
        fleet.pod(name, gpus=2, queue="team-b", node=node, devices=devices, job=name)
    return fleet


def a_job(name: str, *, pods: int, gpus: int, queue: str, gang: bool = False, **spec: Any) -> dict[str, Any]:
    annotations = {"gpufleet.io/gang": name} if gang else {}
    container = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    labels = {QUEUE: queue} if queue else {}
    template = {"metadata": {"labels": labels, "annotations": annotations}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "parallelism": pods,
            "template": {**template, "spec": {"containers": [container], "restartPolicy": "Never", **spec}},
        },
    }


def files(*objects: dict[str, Any]) -> tuple[Submitted, ...]:
    return (Submitted("work.yaml", yaml.safe_dump_all(objects).encode()),)


def answer(fleet: Fleet, **changes: Any) -> Answer:
    return answer_of(Request(**changes), fleet.picture, SETTINGS, AT, lambda _: None)


def shown(capsys: pytest.CaptureFixture[str], path: Path, *options: str) -> str:
    assert main(["whatif", "--snapshot", str(path), *options]) == 0
    return capsys.readouterr().out


RECLAIM = """\
If  work.yaml: 2 pods submitted

2 pods would start:
  gang default/train (2 pods, GPUs: 2 each)  now on gpu-1 (2)
2 pods would be evicted:
"""


def test_a_gang_reclaims_what_was_lent(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = two_teams().write(tmp_path / "fleet")
    work = tmp_path / "work.yaml"
    work.write_text(yaml.safe_dump(a_job("train", pods=2, gpus=2, queue="team-a", gang=True)))
    text = shown(capsys, path, "--submit", str(work))
    assert text.startswith(RECLAIM), text
    assert "for gang default/train; waits again: needs 2 whole GPUs" in " ".join(text.split())
    assert "team-a gpu  4 instead of 0, nominal 4" in text
    assert "team-b gpu  4 instead of 8, nominal 4" in text
    assert text.endswith(
        "2 pods wait in the end (without it: 0):\n  those named above\n\n"
        "Nothing was changed in the cluster.\n"
    )
    found = json.loads(shown(capsys, path, "--submit", str(work), "-o", "json"))
    assert found["schema"] == "gpufleet.io/whatif/v1"
    assert [one["name"] for one in found["starts"]] == ["train"]
    assert found["starts"][0]["start"] == {"inS": 0.0, "nodes": {"gpu-1": 2}}
    assert {one["forWhom"] for one in found["evicted"]} == {"gang default/train"}
    assert sum(one["waitsAgain"] for one in found["evicted"]) == 2


def test_a_card_that_is_being_cut_is_named_beside_the_answer() -> None:
    fleet = two_teams()
    layout, since = ["2g.20gb@2"], "2026-11-29T10:00:00Z"
    words = {
        "gpufleet.io/mig-layouts": json.dumps({"GPU-gpu-1-0": layout}),
        "gpufleet.io/mig-layout-states": "{}",
        "gpufleet.io/mig-layout-demand": json.dumps(
            {"GPU-gpu-1-0": {"layout": layout, "since": since, "pods": ["team/p"]}}
        ),
    }
    fleet.put(resources.NODES, Node, {"metadata": {"name": "gpu-1", "annotations": words}})
    (note,) = answer(fleet, add_nodes=(AddNodes("1", 1),)).notes
    assert note.endswith(f"is being cut into 2g.20gb@2 for team/p since {since}: it does not count here yet")


def test_work_on_a_new_node_says_how_long_its_data_is_copied(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """141 GB at 1.1 GB/s are 128.18 s; a new node has none of it."""
    fleet = two_teams()
    entry = {"kind": "model", "name": "org/llama", "bytes": 141 * 10**9, "complete": True, "folder": "/data"}
    fleet.put(resources.NODE_DATA, NodeData, {"metadata": {"name": "gpu-1"}, "spec": {"entries": [entry]}})
    job = a_job("serve", pods=1, gpus=4, queue="")
    job["spec"]["template"]["metadata"]["annotations"] = {"gpufleet.io/data": "model/org/llama"}
    more = (AddNodes("1", 1),)
    (started,) = answer(fleet, add_nodes=more, submit=files(job)).starts
    assert started.start == Start(0.0, {"new-1": 1}, Ready(None, 128.181, None))
    path, work = fleet.write(tmp_path / "fleet"), tmp_path / "work.yaml"
    work.write_text(yaml.safe_dump(job))
    text = shown(capsys, path, "--add-nodes", "1", "--submit", str(work))
    assert "now on new-1, and copies its data for 2m8s" in text


def test_more_nodes_let_waiting_work_start() -> None:
    fleet = two_teams()
    fleet.queue("team-b", gpu=16, parent="root")
    fleet.pod("wait-1", gpus=4, queue="team-b", job="wait")
    fleet.pod("wait-2", gpus=4, queue="team-b", job="wait")
    told = answer(fleet, add_nodes=(AddNodes("1", 1),))
    assert told.changes == ("1 node more (new-1), like gpu-1, of which kind there are most",)
    (started,) = told.starts
    assert (started.title, started.pods) == ("job default/wait", 1)
    assert started.start == Start(0.0, {"new-1": 1})
    assert told.waiting_pods_after == told.waiting_pods_before - 1


def test_a_described_node_is_of_the_model_that_is_named() -> None:
    fleet = Fleet()
    selector = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    fleet.pod("p", gpus=8, nodeSelector=selector)
    fleet.pod("q", gpus=8, nodeSelector={"nvidia.com/gpu.product": "another"})
    told = answer(fleet, add_nodes=(read_add_nodes("2:gpus=8,model=A100-80GB"),))
    (started,) = told.starts
    assert started.title == "pod default/p"
    (waits,) = told.waits
    assert waits.title == "pod default/q"


def test_a_higher_quota_lets_the_owner_start_at_once() -> None:
    fleet = Fleet()
    fleet.node("gpu-1")
    fleet.queue("team", gpu=1, limits={"borrowingLimit": 0})
    fleet.pod("p", gpus=2, queue="team")
    told = answer(fleet, set_quotas=(read_set_quota("team.gpu=2"),))
    assert [one.title for one in told.starts] == ["pod default/p"]
    (change,) = told.queues
    assert (change.used_before, change.used_after) == ("0", "2")
    assert (change.nominal_before, change.nominal_after) == ("1", "2")


def test_a_lower_quota_gives_what_was_borrowed_back() -> None:
    """Team-b then borrows more; a waiting pod of team-a, whose quota it was, takes it."""
    fleet = two_teams()
    fleet.pod("own", gpus=2, queue="team-a", job="own")
    before = answer(fleet, set_quotas=(read_set_quota("team-a.gpu.hard=0"),))
    assert [one.title for one in before.spared] == ["job default/eval-0"] or before.spared
    assert [one.title for one in before.delayed] == ["job default/own"]


def test_work_of_a_node_that_goes_starts_elsewhere_waits_or_is_lost() -> None:
    fleet = Fleet()
    for name in ("gpu-1", "gpu-2"):
        fleet.node(name)
    fleet.pod("bare", gpus=1, node="gpu-1", devices="0")
    fleet.pod("a-0", gpus=2, node="gpu-1", devices="12", job="a")
    fleet.pod("b-0", gpus=1, node="gpu-1", devices="3", job="b")
    fleet.pod("stays", gpus=2, node="gpu-2", devices="01")
    told = answer(fleet, remove_nodes=("gpu-1",), add_nodes=())
    assert [one.title for one in told.lost] == ["pod default/bare"]
    moved = {one.name: (one.again, one.waits_again) for one in told.displaced}
    places = [again.nodes for again, _ in moved.values() if again is not None]
    # Two of the three GPUs that are asked for are free elsewhere.
    assert places in ([{"gpu-2": 1}], [{"gpu-2": 1}, {"gpu-2": 1}])
    assert told.starts == ()
    assert told.evicted == ()


def test_without_a_pool_its_pods_go_elsewhere_or_wait() -> None:
    fleet = Fleet()
    for name in ("gpu-1", "gpu-2"):
        fleet.node(name, labels={"karpenter.sh/nodepool": "spot"})
        fleet.pod(f"on-{name}", gpus=3, node=name, job=name)
    fleet.node("gpu-3")
    told = answer(fleet, remove_pools=("spot",), add_nodes=())
    assert told.changes == ("pool spot is gone with 2 nodes, and 2 pods on it must go elsewhere",)
    assert sorted(one.waits_again for one in told.displaced) == [0, 1]


def test_a_pod_that_is_being_deleted_makes_room_when_it_has_gone() -> None:
    fleet = Fleet()
    fleet.node("gpu-1")
    fleet.pod("old", gpus=4, node="gpu-1", deleted="2026-03-01T12:00:30Z")
    told = answer(fleet, submit=files(a_job("new", pods=1, gpus=4, queue="")))
    (started,) = told.starts
    assert started.start == Start(30.0, {"gpu-1": 1})


def test_changes_are_made_together() -> None:
    fleet = two_teams()
    job = a_job("train", pods=2, gpus=4, queue="team-a", gang=True)
    alone = answer(fleet, submit=files(job))
    assert alone.starts == ()
    both = answer(
        fleet,
        submit=files(job),
        add_nodes=(AddNodes("1", 1), AddNodes("1:like=gpu-2", 1, "gpu-2")),
        set_quotas=(SetQuota("", "team-a.gpu", "12"),),
    )
    (started,) = both.starts
    assert started.start == Start(0.0, {"new-1": 1, "new-2": 1})
    assert both.evicted == ()


def test_the_same_quota_changes_nothing_and_the_picture_stays_as_it_is() -> None:
    fleet = two_teams()
    fleet.pod("own", gpus=2, queue="team-a", job="own")
    was = {kind: dict(found) for kind, found in fleet.picture.objects.items()}
    told = answer(fleet, set_quotas=(read_set_quota("team-b.gpu=4"),))
    assert (told.starts, told.evicted, told.delayed, told.spared, told.displaced) == ((), (), (), (), ())
    assert told.queues == ()
    answer(fleet, remove_nodes=("gpu-1",), submit=files(a_job("x", pods=1, gpus=1, queue="")))
    assert fleet.picture.objects == was


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
def test_replicas_are_submitted_as_their_controllers_make_them(kind: str) -> None:
    fleet = Fleet()
    fleet.node("gpu-1")
    job = a_job("web", pods=1, gpus=1, queue="")
    template = job["spec"]["template"]
    work = {**job, "apiVersion": "apps/v1", "kind": kind, "spec": {"replicas": 3, "template": template}}
    told = answer(fleet, submit=files(work))
    assert told.changes == ("work.yaml: 3 pods submitted",)
    (started,) = told.starts
    assert started.pods == 3
    assert started.submitted


def test_a_queue_of_the_same_file_counts() -> None:
    fleet = Fleet()
    fleet.node("gpu-1")
    queue = {
        "apiVersion": "gpufleet.io/v1alpha1",
        "kind": "FleetQueue",
        "metadata": {"name": "new"},
        "spec": {"quotas": [{"resource": "gpu", "nominal": 1, "borrowingLimit": 0}]},
    }
    told = answer(fleet, submit=files(a_job("x", pods=1, gpus=2, queue="new"), queue))
    assert told.starts == ()
    assert "queue new" in told.waits[0].why
    assert told.waits[0].submitted


@pytest.mark.parametrize(
    ("metadata", "limits"),
    [
        ({"annotations": {"gpufleet.io/gpu-fraction": "0.5"}}, {"cpu": 1}),
        ({"labels": {"gpufleet.io/gpu-fraction": "0.5"}}, {"cpu": 1}),
        ({"annotations": {"gpu-fraction": "0.5", "gpu-fraction-container-name": "c"}}, {"cpu": 1}),
        ({}, {"nvidia.com/gpu": 1, "nvidia.com/gpucores": 50, "nvidia.com/gpumem-percentage": 50}),
    ],
)
def test_a_managed_namespace_completes_a_share(metadata: dict[str, object], limits: dict[str, int]) -> None:
    """As admission does: by the names of annotations and labels, and of HAMi's resources."""
    fleet = Fleet()
    managed = {"metadata": {"name": "default", "labels": {"gpufleet.io/managed": "true"}}}
    fleet.put(resources.NAMESPACES, type(fleet.picture.find(resources.NAMESPACES, "default")), managed)
    share = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "s", **metadata},
        "spec": {"containers": [{"name": "c", "image": "x", "resources": {"limits": limits}}]},
    }
    told = answer(
        fleet, submit=files(share), add_nodes=(read_add_nodes("1:gpus=1,model=H100-80GB,sharing=mixed"),)
    )
    (started,) = told.starts
    assert started.gpus == "0.5"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--add-nodes", "x"], ["'x'", "from 1 to 10000"]),
        (["--add-nodes", "0"], ["'0'"]),
        (["--add-nodes", "1:like=gpu-11"], ["gpu-11", "did you mean gpu-1?"]),
        (["--add-nodes", "1:gpus=8"], ["model=H100-80GB"]),
        (["--add-nodes", "1:gpus=8,model=H101-80GB"], ["did you mean"]),
        (["--add-nodes", "1:gpus=8,model=H100"], ["H100-80GB, H100-94GB"]),
        (["--add-nodes", "1:gpus=8,model=H100-80GB,cpu=x"], ["cpu", "'x'"]),
        (["--add-nodes", "1:gpu=8"], ["gpu=8", "gpus="]),
        (["--add-nodes", "1:like=gpu-1,gpus=2"], ["like= alone"]),
        (["--remove-node", "gpu-3"], ["--remove-node", "'gpu-3'", "such as gpu-1"]),
        (["--remove-pool", "spot"], ["--remove-pool", "'spot'", "LABEL=VALUE"]),
        (["--set-quota", "team-c.gpu=1"], ["'team-c.gpu'", "did you mean team-"]),
        (["--set-quota", "nobody=1"], ["QUEUE.RESOURCE=VALUE"]),
        (["--set-quota", "team-a.gpu=many"], ["team-a.gpu", "'many'", "such as 8"]),
        (["--set-quota", "team-a.gpus=1"], ["'gpus'", "gpu?"]),
        (["--set-quota", "team-a.gpu.lending=9"], ["more than there is to lend"]),
        (["--submit", "nowhere.yaml"], ["nowhere.yaml", "is not there"]),
        ([], ["nothing would change"]),
    ],
)
def test_bad_words_are_told_with_field_value_and_way_out(
    options: list[str], words: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = two_teams().write(tmp_path / "fleet")
    assert main(["whatif", "--snapshot", str(path), *options]) == 2
    told = capsys.readouterr().err
    assert all(word in told for word in words), told


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "DaemonSet"}, ["batch/v1 DaemonSet", "Deployment"]),
        ({"metadata": {"name": "No Name"}}, ["metadata.name", "'No Name'"]),
        ({"spec": {"parallelism": -1, "template": {"spec": {}}}}, ["spec.parallelism", "-1"]),
        ({"spec": {}}, ["spec.template"]),
        ({"spec": {"template": {"spec": {"containers": 7}}}}, ["Job x", "spec.containers"]),
        (
            {"spec": {"template": {"spec": {"containers": [], "schedulerName": "other"}}}},
            ["spec.schedulerName", "other", "gpufleet"],
        ),
        (
            {"spec": {"template": {"spec": {"containers": [], "priorityClassName": "high"}}}},
            ["spec.priorityClassName", "'high'"],
        ),
    ],
)
def test_bad_work_is_told_with_its_field(change: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        answer(Fleet(), submit=files({**a_job("x", pods=1, gpus=1, queue=""), **change}))
    assert all(word in str(caught.value) for word in ("work.yaml", *words)), str(caught.value)


def test_work_that_is_there_already_is_refused() -> None:
    fleet = Fleet()
    fleet.pod("x-0", gpus=1)
    with pytest.raises(InputError, match="x-0 is there already"):
        answer(fleet, submit=files(a_job("x", pods=1, gpus=1, queue="")))


def test_a_file_without_work_is_refused() -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}
    with pytest.raises(InputError, match="no work in it"):
        answer(Fleet(), submit=files(namespace))
    with pytest.raises(InputError, match="not YAML"):
        answer(Fleet(), submit=(Submitted("f", b"a: [1"),))


def test_names_in_the_answer_cannot_move_a_cursor(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    fleet = two_teams()
    path = fleet.write(tmp_path / "fleet")
    assert main(["whatif", "--snapshot", str(path), "--remove-node", "a\x1b[2J"]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_work_that_says_how_long_it_runs_makes_room_when_it_ends() -> None:
    fleet = Fleet()
    fleet.node("gpu-1")
    fleet.queue("team", gpu=8)
    fleet.pod("half-an-hour", gpus=4, queue="team", node="gpu-1", activeDeadlineSeconds=1800)
    hour = a_job("hour", pods=1, gpus=4, queue="team", activeDeadlineSeconds=3600)
    last = a_job("last", pods=1, gpus=4, queue="team")
    found = answer(fleet, submit=files(hour, last))
    starts = {work.name: work.start.in_s for work in found.starts if work.start is not None}
    assert starts == {"hour": 1800, "last": 5400}
    assert found.waits == ()
    assert found.waiting_pods_after == 0


def of_claims(kind: str, name: str, spec: dict[str, Any], **metadata: str) -> dict[str, Any]:
    """An object of the API of claims of devices."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def with_template(name: str, template: str) -> dict[str, Any]:
    """A pod whose claim is made of a template."""
    claims = [{"name": "gpu", "resourceClaimTemplateName": template}]
    spec = {"containers": [{"name": "main", "image": "x"}], "resourceClaims": claims}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_submitted_pods_get_claims_of_their_templates_and_devices_as_the_scheduler_gives_them() -> None:
    fleet = Fleet()
    fleet.node("gpu-1")
    pool = {"name": "gpu-1", "generation": 1, "resourceSliceCount": 1}
    offered = {"driver": "gpu.example.com", "nodeName": "gpu-1", "pool": pool, "devices": [{"name": "d0"}]}
    written = {"metadata": {"name": "gpu-1"}, "spec": offered}
    fleet.put(resources.RESOURCE_SLICES, ResourceSliceObject, written)
    device_class = of_claims("DeviceClass", "any", {})
    asked = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "any"}}]}}
    template = of_claims("ResourceClaimTemplate", "one", {"spec": asked}, namespace="default")
    work = files(device_class, template, with_template("first", "one"), with_template("second", "one"))
    found = answer(fleet, submit=work)
    assert len(found.starts) == 1
    assert len(found.waits) == 1
    with pytest.raises(InputError, match="no such template"):
        answer(fleet, submit=files(with_template("third", "other")))


@pytest.mark.parametrize(("spec", "field"), [("foo", "spec"), ({"spec": ["foo"]}, r"spec\.spec")])
def test_a_claim_template_of_another_form_is_refused(spec: Any, field: str) -> None:
    work = files(of_claims("ResourceClaimTemplate", "one", spec), with_template("first", "one"))
    with pytest.raises(InputError, match=f"ResourceClaimTemplate one, {field}: not a map, found .*foo"):
        answer(Fleet(), submit=work)
