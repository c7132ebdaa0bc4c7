"""What can be told of a pod's use, and what cannot be told apart is said and left out."""

import pytest

from gpufleet.advise.sharing.statements import read_statement
from gpufleet.cli.sharing_question import HOSTS_UNKNOWN, Terms, advise_from_prometheus
from gpufleet.model.model_errors import InputError
from gpufleet.usage.measured_cards import Card, Host
from gpufleet.usage.prometheus.pod_samples import GpuUse
from tests.usage.prometheus.stories import Story, exported, honoured, use_of

DCGM_BLANK = 9223372036854775794.0
"""DCGM_INT64_BLANK + 2 (not found), as dcgm_structs.h has it."""


def story() -> Story:
    found = Story(minutes=10)
    found.up()
    found.gpu("GPU-ok", honoured("web", "fine"), lambda _: 20, gpu="7")
    return found


def pods(use: GpuUse) -> dict[str, int]:
    """How many samples each pod has, without the one that is always fine."""
    names = [one.pod for one in use.samples if one.pod != "fine"]
    return {name: names.count(name) for name in names}


def test_pods_that_share_a_gpu_are_left_out_and_said() -> None:
    told = story()
    for pod in ("one", "two"):
        told.gpu("GPU-0", honoured("lab", pod), lambda _: 60)
    use = use_of(told)
    assert pods(use) == {}
    assert [note for note in use.notes if "lab/one" in note] == [
        "lab/one, lab/two held a GPU together with other pods; what they used then is left out"
    ]
    # Nor does anybody else get its place.
    assert {card.index: card.is_free for card in use.cards} == {0: False, 7: True}


def test_a_pod_is_judged_by_the_time_that_it_was_alone() -> None:
    told = story()
    told.gpu("GPU-0", honoured("lab", "long"), lambda _: 60)
    told.gpu("GPU-0", honoured("lab", "guest"), lambda _: 60, when=range(2, 6))
    use = use_of(told)
    assert pods(use) == {"long": 6}
    assert any(note.startswith("lab/guest, lab/long held a GPU together") for note in use.notes)


def test_one_that_ends_and_one_that_begins_within_a_minute_share_nothing() -> None:
    told = story()
    told.gpu("GPU-0", honoured("lab", "before"), lambda _: 60, when=range(6))
    told.gpu("GPU-0", honoured("lab", "after"), lambda _: 60, when=range(5, 10))
    use = use_of(told)
    assert pods(use) == {"before": 5, "after": 4}
    assert use.notes == ()


@pytest.mark.parametrize("minutes", [[4], [4, 5]])
def test_two_that_were_there_briefly_at_the_same_time_did_share(minutes: list[int]) -> None:
    told = story()
    for pod in ("one", "two"):
        told.gpu("GPU-0", honoured("lab", pod), lambda _: 60, when=minutes)
    assert any("lab/one, lab/two held a GPU together" in note for note in use_of(told).notes)


def test_two_exporters_tell_of_one_pod_once() -> None:
    told = story()
    told.gpu("GPU-0", honoured("lab", "one"), lambda _: 30)
    told.gpu("GPU-0", exported("lab", "one"), lambda _: 31)
    told.gpu("GPU-0", {}, lambda _: 30, job="third")
    told.up(
        {"job": "third", "instance": "10.0.0.1:9400", "namespace": "gpu-operator", "pod": "dcgm-exporter-x"}
    )
    use = use_of(told)
    assert {(one.pod, one.gpu_milli, one.gpus) for one in use.samples if one.pod == "one"} == {
        ("one", 310, 1)
    }


def test_a_pod_with_several_gpus_is_as_busy_as_the_busiest() -> None:
    told = story()
    for at in range(4):
        told.gpu(f"GPU-{at}", honoured("lab", "big"), lambda _, at=at: 10 * at, 1000 + at, gpu=str(at))  # type: ignore[misc]
    (first, *_) = [one for one in use_of(told).samples if one.pod == "big"]
    assert (first.gpus, first.gpu_milli, first.memory_mib) == (4, 300, 1003)


def test_what_a_pod_asks_for_counts_before_what_was_seen() -> None:
    told = story()
    told.gpu("GPU-0", honoured("lab", "big"), lambda _: 10)
    told.asks("lab", "big", 2)
    assert {one.gpus for one in use_of(told).samples if one.pod == "big"} == {2}


def test_what_a_pod_asks_of_its_node_is_the_sum_of_its_containers() -> None:
    told = story()
    told.gpu("GPU-0", honoured("lab", "one"), lambda _: 10)
    for container, cores, memory_bytes in (("main", 1.5, 2**30), ("sidecar", 0.07, 1)):
        told.asks("lab", "one", cores, "cpu", container)
        told.asks("lab", "one", memory_bytes, "memory", container)
    told.node("node-a", 96, 700)
    told.node("other", 1, 1)
    use = use_of(told)
    # 1.57 cores and a byte more than a GiB, rounded up.
    assert {(one.cpu_milli, one.host_memory_mib) for one in use.samples if one.pod == "one"} == {(1570, 1025)}
    assert use.hosts == {"node-a": Host(96_000, 700 * 1024)}
    # Who asks for CPU alone is no holder of GPUs.
    told.asks("lab", "web", 4, "cpu")
    assert not any("lab/web" in note for note in use_of(told).notes)


def test_instances_of_a_cut_card_are_no_whole_gpus() -> None:
    told = story()
    told.gpu("GPU-0", honoured("lab", "slice"), lambda _: 10, GPU_I_ID="3", GPU_I_PROFILE="1g.10gb")
    use = use_of(told)
    assert pods(use) == {}
    assert any("lab/slice run on parts of cards that are cut" in note for note in use.notes)
    assert {card.index: card.is_free for card in use.cards} == {0: False, 7: True}


def test_memory_of_instances_alone_tells_that_a_card_is_cut() -> None:
    # DCGM has no DCGM_FI_DEV_GPU_UTIL of an instance; the card itself may still have its own.
    told = story()
    told.gpu("GPU-0", honoured("lab", "one"), lambda _: 10)
    labels = {"UUID": "GPU-0", "GPU_I_ID": "1", "modelName": "NVIDIA A100-SXM4-80GB", "Hostname": "node-a"}
    told.tell("DCGM_FI_DEV_FB_USED", labels, lambda _: 500)
    assert pods(use_of(told)) == {}


@pytest.mark.parametrize(
    ("resource", "said"),
    [("nvidia_com_gpu_shared", "nvidia_com_gpu_shared"), ("gpufleet_io_gpu_share", "share")],
)
def test_who_asks_for_a_part_is_shared_already(resource: str, said: str) -> None:
    told = story()
    told.gpu("GPU-0", honoured("lab", "part"), lambda _: 10)
    told.asks("lab", "part", 1, resource)
    use = use_of(told)
    assert pods(use) == {}
    assert any(said in note and "lab/part" in note for note in use.notes)


@pytest.mark.parametrize(("gpus", "samples"), [(2, 10), (3, 0)])
def test_a_node_that_offers_more_gpus_than_it_has_shares_them_unseen(gpus: int, samples: int) -> None:
    # dcgm-exporter names one of those on a card that is time-sliced under the plain name.
    told = Story(minutes=10)
    told.up()
    told.gpu("GPU-0", honoured("lab", "named"), lambda _: 10, Hostname="node-b")
    told.gpu("GPU-1", {}, lambda _: 10, Hostname="node-b", gpu="1")
    told.gpu("GPU-ok", honoured("web", "fine"), lambda _: 20)
    told.node("node-b", 8, 64, gpus)
    use = use_of(told)
    assert pods(use) == ({"named": samples} if samples else {})
    assert any("lab/named ran on nodes that offer more GPUs" in note for note in use.notes) == (samples == 0)


def test_a_label_that_may_be_the_exporters_is_no_holder() -> None:
    # The target left no series up, so nobody can say whose name that is.
    told = story()
    told.gpu("GPU-0", honoured("gpu-operator", "dcgm-exporter-y"), lambda _: 10, instance="10.0.0.2:9400")
    use = use_of(told)
    assert pods(use) == {}
    assert any(note.startswith("GPU-0 have a label pod that may be the exporter's") for note in use.notes)


def test_unless_it_is_known_to_ask_for_gpus() -> None:
    told = story()
    told.gpu("GPU-0", honoured("lab", "train"), lambda _: 10, instance="10.0.0.2:9400")
    told.asks("lab", "train", 1)
    assert pods(use_of(told)) == {"train": 10}


def test_readings_that_no_gpu_can_have_are_left_out() -> None:
    told = story()
    told.gpu("GPU-0", honoured("lab", "odd"), lambda minute: DCGM_BLANK if minute < 3 else 50)
    use = use_of(told)
    assert pods(use) == {"odd": 7}
    assert use.notes == ("3 readings that no GPU can have are left out",)


def test_without_memory_there_is_no_advice() -> None:
    told = story()
    told.gpu("GPU-0", honoured("lab", "one"), lambda _: 50, memory_mib=None)
    use = use_of(told)
    assert pods(use) == {}
    assert any("lab/one have no reading of DCGM_FI_DEV_FB_USED" in note for note in use.notes)


@pytest.mark.parametrize("label", ["modelName", "Hostname"])
def test_a_model_or_host_that_nobody_knows(label: str) -> None:
    told = story()
    told.gpu("GPU-0", {**honoured("lab", "one"), label: "$(reboot)"}, lambda _: 50)
    use = use_of(told)
    assert pods(use) == {}
    assert any("lab/one ran on GPUs" in note for note in use.notes)
    assert [card.index for card in use.cards] == [7]


def test_both_labels_of_the_host_are_read() -> None:
    told = story()
    told.gpu("GPU-0", honoured("lab", "one"), lambda _: 50, Hostname="", hostname="node-n")
    assert {one.node for one in use_of(told).samples if one.pod == "one"} == {"node-n"}


def test_pods_that_ask_and_are_on_no_series_are_said() -> None:
    told = story()
    told.asks("lab", "waiting", 8)
    assert any("lab/waiting ask for GPUs and no series names them" in note for note in use_of(told).notes)


def test_cards_that_came_and_went_are_not_there_at_once() -> None:
    told = story()
    told.gpu("GPU-old", {}, lambda _: 0, when=range(3), Hostname="node-b")
    told.gpu("GPU-new", {}, lambda _: 0, when=range(5, 10), Hostname="node-b")
    assert [card for card in use_of(told).cards if card.host == "node-b"] == [Card("node-b", 0, "A100-80GB")]


def test_owners_name_the_workload() -> None:
    told = story()
    for at, pod in enumerate(("api-5dd5756b68-x7k2v", "nightly-29380200-abcde", "alone", "web-7d9fbc")):
        told.gpu(f"GPU-{at}", honoured("lab", pod), lambda _: 50, gpu=str(at))
    told.owned("lab", "api-5dd5756b68-x7k2v", "ReplicaSet", "api-5dd5756b68")
    told.replica_set("lab", "api-5dd5756b68", "api")
    told.owned("lab", "nightly-29380200-abcde", "Job", "nightly-29380200")
    told.job("lab", "nightly-29380200", "nightly")
    told.owned("lab", "alone", "<none>", "<none>")
    assert {one.workload for one in use_of(told).samples} == {"fine", "api", "nightly", "alone", "web-7d9fbc"}


def test_namesakes_of_two_kinds_stay_two() -> None:
    told = story()
    for at, kind in enumerate(("Deployment", "Job")):
        told.gpu(f"GPU-{at}", honoured("lab", f"p{at}"), lambda _: 50, gpu=str(at))
        told.owned("lab", f"p{at}", kind, "same")
    assert {one.workload for one in use_of(told).samples} == {"fine", "same (Deployment)", "same (Job)"}


def test_nothing_to_judge_is_an_error_that_says_why() -> None:
    told = Story(minutes=10)
    told.up()
    told.gpu("GPU-0", {}, lambda _: 0)
    with pytest.raises(
        InputError, match=r"http://stand-in: nothing that can be judged.*DCGM_EXPORTER_KUBERNETES"
    ):
        use_of(told)


@pytest.mark.parametrize(("cores", "mode", "gpus"), [(16, "time-slice", 1), (15, "whole", 2)])
def test_a_gpu_is_shared_by_as_many_as_its_node_has_cpu_for(cores: int, mode: str, gpus: int) -> None:
    # Two notebooks of 8 CPUs: on one GPU they are on one node, and two nodes have a GPU each.
    told = Story(minutes=10)
    told.up()
    for at in range(2):
        told.gpu(f"GPU-{at}", honoured("lab", f"nb-{at}"), lambda _: 5, Hostname=f"node-{at}")
        told.asks("lab", f"nb-{at}", 8, "cpu")
        told.owned("lab", f"nb-{at}", "StatefulSet", "nb")
        told.node(f"node-{at}", cores, 64)
    terms = Terms(None, 60, 5, {}, (read_statement("lab/nb=notebook"),))
    advice = advise_from_prometheus(use_of(told), terms)
    assert (advice.plan.choices[0].mode.value, advice.plan.gpus) == (mode, gpus)
    assert HOSTS_UNKNOWN not in advice.notes


def test_where_nodes_are_not_known_their_cpu_is_not_judged_and_that_is_said() -> None:
    told = story()
    told.asks("web", "fine", 8, "cpu")
    advice = advise_from_prometheus(use_of(told), Terms(None, 60, 5, {}))
    assert advice.plan.unplaced == ()
    assert HOSTS_UNKNOWN in advice.notes
