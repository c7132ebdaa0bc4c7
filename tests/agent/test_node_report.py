"""The report of a node: its cards, and who really holds which part of them."""

import msgspec
import pytest

from gpufleet.agent.reports.node_report import link_groups, node_report, report_holders
from gpufleet.agent.state.node_state import Held, NodeGpus
from gpufleet.devices.facts import Driver, Link, MigFacts
from gpufleet.devices.health import Verdict
from gpufleet.devices.sharing.plan import Exclusive, Fractions, Mig, Mode, Mps, TimeSlice
from gpufleet.kube.codec.node import read_devices
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.node_devices import DeviceTaint, Holder, MigInstance, NodeDevices, ReportedDevice
from gpufleet.model.device import Serves
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.identifiers import DeviceId
from tests.agent.node_values import (
    BOOT,
    FRACTIONS,
    GPU,
    NODE,
    SHARE,
    a_gpu,
    a_grant,
    a_node,
    a_pod,
    a_share,
    by_uid,
    held,
    whole,
)

SMALL = MigFacts("MIG-a", "1g.10gb", 0, 7, 0, 9_856)
LARGE = MigFacts("MIG-b", "3g.40gb", 4, 2, 0, 40_192)
UNPLACED = MigFacts("MIG-c", "1g.10gb", None, 8, 0, 9_856)
GRANT = a_grant(a_share("GPU-0", 250, 20_000))


def test_a_card_is_reported_with_what_can_be_used_of_it() -> None:
    gpu = a_gpu("GPU-0", numa_node=1)
    assert node_report(a_node(gpu), (), {}).devices == (
        ReportedDevice("GPU-0", "NVIDIA", "H100-80GB", 81_559, 80_000, 1, 0, "whole", (), "healthy", ""),
    )


def test_boot_and_driver_are_told() -> None:
    report = node_report(a_node(), (), {})
    assert (report.boot_id, report.driver) == (BOOT, "580.95.05")
    two = (Driver(Vendor.NVIDIA, "580.1"), Driver(Vendor.AMD, "6.14"))
    assert node_report(a_node(drivers=two), (), {}).driver == "NVIDIA 580.1, AMD 6.14"


def test_what_nobody_knows_is_absent() -> None:
    gpu = a_gpu("GPU-0", memory_mib=None, reserved_mib=None, product="Card X")
    found = node_report(a_node(gpu), (), {}).devices[0]
    assert (found.memory_mib, found.usable_memory_mib, found.numa_node) == (None, None, None)
    assert found.model == "Card-X"


@pytest.mark.parametrize(
    ("verdict", "reason", "told"),
    [
        (Verdict.UNHEALTHY, "Xid 79", "Xid 79"),
        (Verdict.UNKNOWN, "no answer", "no answer"),
        (Verdict.HEALTHY, "stale", ""),
    ],
)
def test_a_sick_card_says_why(verdict: Verdict, reason: str, told: str) -> None:
    found = node_report(a_node(a_gpu("GPU-0", health=verdict, reason=reason)), (), {}).devices[0]
    assert (found.health, found.health_reason) == (verdict.value, told)


@pytest.mark.parametrize(
    ("mode", "renamed", "serves"),
    [
        (Exclusive(), False, Serves.WHOLE),
        (Fractions(10), False, Serves.SHARE),
        (TimeSlice(4), True, Serves.NOTHING),
        (Mps(4, 20_000, 25), True, Serves.NOTHING),
        (Mig(None), False, Serves.NOTHING),
    ],
)
def test_the_scheduler_places_on_a_card_what_it_serves(mode: Mode, renamed: bool, serves: Serves) -> None:
    """As the scheduler's own reader of the report understands it."""
    report = node_report(a_node(a_gpu("GPU-0", mode, renamed=renamed)), (), {})
    assert [one.serves for one in read_devices(NodeDevices(Metadata(NODE), report))] == [serves]


def test_replicas_under_the_name_of_whole_gpus_are_granted_one_by_one() -> None:
    gpus = a_node(a_gpu("GPU-0", TimeSlice(3)), a_gpu("GPU-1", Mps(2, 20_000, 50)), a_gpu("GPU-2"))
    devices = read_devices(NodeDevices(Metadata(NODE), node_report(gpus, (), {})))
    assert [(one.id, one.memory_mib) for one in devices] == [
        ("GPU-0::0", 26_666),
        ("GPU-0::1", 26_666),
        ("GPU-0::2", 26_666),
        ("GPU-1::0", 20_000),
        ("GPU-1::1", 20_000),
        ("GPU-2", 80_000),
    ]
    assert {one.serves for one in devices} == {Serves.WHOLE}


def test_no_replica_has_more_memory_than_its_card() -> None:
    report = node_report(a_node(a_gpu("GPU-0", Mps(2, 90_000, 50))), (), {})
    assert [one.memory_mib for one in read_devices(NodeDevices(Metadata(NODE), report))] == [80_000, 80_000]


def test_more_replicas_than_a_report_may_list_leave_one_device_for_each_card() -> None:
    gpus = a_node(a_gpu("GPU-0", TimeSlice(1000)), a_gpu("GPU-1", TimeSlice(25)))
    assert [one.id for one in node_report(gpus, (), {}).devices] == ["GPU-0", "GPU-1"]
    assert [one.device for one in reported(gpus, held("a", GPU, "GPU-1::7"))] == ["GPU-1"]


def test_instances_that_a_scheduler_can_name_are_listed_by_their_place() -> None:
    partition = MigFacts("part-0", "cpx_nps4", 0, 0, 0)
    gpu = a_gpu("GPU-0", Mig(None), mig=(LARGE, UNPLACED, SMALL, partition))
    found = node_report(a_node(gpu), (), {}).devices[0]
    assert found.mig_instances == (MigInstance("1g.10gb", 0), MigInstance("3g.40gb", 4))


def test_instances_that_go_by_the_name_of_gpus_are_granted_one_by_one() -> None:
    gpus = a_node(
        a_gpu("GPU-0", Mig(None, as_gpus=True), mig=(LARGE, UNPLACED, SMALL)),
        a_gpu("GPU-1", Mig(None, {"3g.40gb": 2}, as_gpus=True), mig=(LARGE,)),
    )
    devices = read_devices(NodeDevices(Metadata(NODE), node_report(gpus, (), {})))
    assert [(one.id, one.memory_mib, one.serves) for one in devices] == [
        ("GPU-0::1g.10gb@0", 9_856, Serves.WHOLE),
        ("GPU-0::3g.40gb@4", 40_192, Serves.WHOLE),
        ("GPU-1::3g.40gb@4::0", 20_096, Serves.WHOLE),
        ("GPU-1::3g.40gb@4::1", 20_096, Serves.WHOLE),
    ]


def test_an_instance_that_goes_by_the_name_of_gpus_is_held_by_its_place() -> None:
    mode = Mig(None, {"3g.40gb": 2}, as_gpus=True)
    gpus = a_node(a_gpu("GPU-0", mode, mig=(SMALL, LARGE)))
    found = reported(gpus, held("a", GPU, "MIG-a", "MIG-b::1"), held("b", GPU, "MIG-b::0"))
    assert found == (
        Holder("GPU-0::1g.10gb@0", "uid-a", "main", "mig", 142, 9_856, "1g.10gb", 0),
        Holder("GPU-0::3g.40gb@4::0", "uid-b", "main", "mig", 214, 20_096, "3g.40gb", 4),
        Holder("GPU-0::3g.40gb@4::1", "uid-a", "main", "mig", 214, 20_096, "3g.40gb", 4),
    )


def test_replicas_of_instances_under_a_name_of_their_own_are_no_gpus() -> None:
    gpu = a_gpu("GPU-0", Mig(None, {"1g.10gb": 2}, as_gpus=True), mig=(SMALL,), renamed=True)
    (device,) = node_report(a_node(gpu), (), {}).devices
    assert (device.id, device.sharing, device.mig_instances) == ("GPU-0", "mig", (MigInstance("1g.10gb", 0),))


def test_an_instance_that_is_sick_by_itself_is_out_of_service_and_no_other_is() -> None:
    mode = Mig(None, as_gpus=True)
    gpu = a_gpu("GPU-0", mode, mig=(SMALL, LARGE), sick_instances={"MIG-b": "Xid 94: contained"})
    found = node_report(a_node(gpu), (), {}).devices
    assert [(one.health, one.health_reason) for one in found] == [
        ("healthy", ""),
        ("unhealthy", "Xid 94: contained"),
    ]
    assert [one.taints for one in found] == [(), (taint("unhealthy", "xid-94"),)]


@pytest.mark.parametrize(
    "mode", [Exclusive(), TimeSlice(2), Fractions(4), Mig(None), Mig(None, as_gpus=True)]
)
@pytest.mark.parametrize(
    ("verdict", "reason", "expected"),
    [
        (Verdict.HEALTHY, "stale", ()),
        (Verdict.UNHEALTHY, "Xid 79: off the bus", (("unhealthy", "xid-79"),)),
        (Verdict.UNHEALTHY, "the driver does not find it any more", (("unhealthy", "missing"),)),
        (Verdict.UNHEALTHY, "it recovered and has to be quiet for 30 s", (("unhealthy", "recovering"),)),
        (Verdict.UNKNOWN, "no answer to a sample for 5 s", (("unknown", "no_answer"),)),
    ],
)
def test_a_device_that_is_not_healthy_has_a_taint_that_says_why_and_no_other_has(
    mode: Mode, verdict: Verdict, reason: str, expected: tuple[tuple[str, str], ...]
) -> None:
    gpus = a_node(a_gpu("GPU-0", mode, mig=(SMALL, LARGE), health=verdict, reason=reason))
    devices = node_report(gpus, (), {}).devices
    assert [one.taints for one in devices] == [tuple(taint(*one) for one in expected)] * len(devices)


def taint(key: str, value: str) -> DeviceTaint:
    return DeviceTaint(f"gpufleet.io/{key}", "NoSchedule", value)


def linked(*pairs: tuple[int, int, Link], count: int = 4) -> list[int]:
    gpus = a_node(
        *(a_gpu(f"GPU-{number}") for number in range(count)),
        links={(DeviceId(f"GPU-{one}"), DeviceId(f"GPU-{two}")): link for one, two, link in pairs},
    )
    return list(link_groups(gpus).values())


def test_cards_that_reach_each_other_fast_are_one_group() -> None:
    assert linked((0, 1, Link.DIRECT), (1, 3, Link.DIRECT), (0, 2, Link.SYSTEM)) == [0, 0, 2, 0]
    assert linked((0, 1, Link.SINGLE_SWITCH), (2, 3, Link.SINGLE_SWITCH), (1, 2, Link.NUMA_NODE)) == [
        0,
        0,
        2,
        2,
    ]


def test_without_a_fast_link_no_card_is_apart() -> None:
    assert linked() == [0, 0, 0, 0]
    assert linked((0, 1, Link.SYSTEM)) == [0, 0, 0, 0]


def reported(gpus: NodeGpus, *holders: Held, grants: bool = True) -> tuple[Holder, ...]:
    pods = by_uid(*(a_pod(name, GRANT if grants else None) for name in ("a", "b")))
    return report_holders(gpus, holders, pods)


def test_a_whole_card_is_held_wholly_whoever_was_meant_to_have_it() -> None:
    gpus = a_node(a_gpu("GPU-0"), a_gpu("GPU-1"))
    assert reported(gpus, held("b", GPU, "GPU-0"), held("a", GPU, "GPU-1")) == (
        Holder("GPU-0", "uid-b", "main", "whole", 1000, 80_000),
        Holder("GPU-1", "uid-a", "main", "whole", 1000, 80_000),
    )


def test_each_replica_that_is_granted_by_itself_has_a_holder() -> None:
    gpus = a_node(a_gpu("GPU-0", TimeSlice(4)), a_gpu("GPU-1", Mps(4, 20_000, 25)))
    found = reported(gpus, held("b", GPU, "GPU-1::2"), held("a", GPU, "GPU-0::3", "GPU-0::0"))
    assert found == (
        Holder("GPU-0::0", "uid-a", "main", "whole", 1000, 20_000),
        Holder("GPU-0::3", "uid-a", "main", "whole", 1000, 20_000),
        Holder("GPU-1::2", "uid-b", "main", "whole", 1000, 20_000),
    )


def test_of_renamed_replicas_each_is_a_part_and_several_are_a_larger_one() -> None:
    gpus = a_node(
        a_gpu("GPU-0", TimeSlice(4), renamed=True), a_gpu("GPU-1", Mps(4, 20_000, 25), renamed=True)
    )
    found = reported(gpus, held("a", GPU, "GPU-0::0", "GPU-0::3"), held("b", GPU, "GPU-1::2", "GPU-1::3"))
    assert found == (
        Holder("GPU-0", "uid-a", "main", "share", 500, None, units=("GPU-0::0", "GPU-0::3")),
        Holder("GPU-1", "uid-b", "main", "share", 500, 40_000, units=("GPU-1::2", "GPU-1::3")),
    )


def test_an_instance_is_named_by_its_place_on_its_card() -> None:
    gpus = a_node(a_gpu("GPU-0", Mig(None), mig=(SMALL, LARGE, UNPLACED)))
    found = reported(gpus, held("a", "nvidia.com/mig-1g.10gb", "MIG-a", "MIG-c"), held("b", GPU, "MIG-b"))
    assert found == (
        Holder("GPU-0", "uid-a", "main", "share", 142, 9_856, units=("MIG-c",)),
        Holder("GPU-0", "uid-a", "main", "mig", 142, 9_856, "1g.10gb", 0),
        Holder("GPU-0", "uid-b", "main", "mig", 428, 40_192, "3g.40gb", 4),
    )


def test_a_share_is_what_its_grant_says_and_without_one_nothing_was_given() -> None:
    gpus = a_node(a_gpu("GPU-0", FRACTIONS))
    assert reported(gpus, held("a", SHARE, "share-7")) == (
        Holder("GPU-0", "uid-a", "main", "share", 250, 20_000, units=("share-7",)),
    )
    assert reported(gpus, held("a", SHARE, "share-7"), grants=False) == ()


def test_who_has_no_grant_is_named_in_words_and_by_uid() -> None:
    gpus = a_node(a_gpu("GPU-0"), a_gpu("GPU-1"))
    found = reported(gpus, held("a", GPU, "GPU-0"), held("new", GPU, "GPU-1", uid=""), grants=False)
    assert [(one.pod_uid, one.foreign) for one in found] == [("uid-a", "team/a"), ("", "team/new")]


def test_what_the_kubelet_forgot_for_a_while_is_held_and_says_so() -> None:
    gpus = a_node(a_gpu("GPU-0"), a_gpu("GPU-1"))
    lost = msgspec.structs.replace(held("a", GPU, "GPU-0"), listed=False, lost=True)
    found = reported(gpus, lost, held("b", GPU, "GPU-0"))
    assert [(one.pod_uid, one.device, one.unknown_to_kubelet) for one in found] == [
        ("uid-a", "GPU-0", True),
        ("uid-b", "GPU-0", False),
    ]


def test_what_an_init_container_lends_is_held_once() -> None:
    gpus = a_node(a_gpu("GPU-0"), a_gpu("GPU-1"))
    init = held("a", GPU, "GPU-0", "GPU-1", container="init")
    found = reported(gpus, init, held("a", GPU, "GPU-1"))
    assert [(one.device, one.container) for one in found] == [("GPU-0", "init"), ("GPU-1", "main")]


def test_a_card_that_is_gone_is_held_by_nobody_and_other_resources_are_not_ours() -> None:
    found = reported(a_node(a_gpu("GPU-0")), held("a", GPU, "GPU-9"), held("b", "example.com/nic", "nic-0"))
    assert found == ()


def test_the_whole_grant_of_a_container_is_not_taken_for_shares() -> None:
    gpus = a_node(a_gpu("GPU-0", FRACTIONS))
    pods = by_uid(a_pod("a", a_grant(whole("GPU-0"))))
    assert report_holders(gpus, (held("a", SHARE, "share-0"),), pods) == ()


def test_what_a_pod_that_went_may_still_use_has_a_holder_of_which_nothing_is_known_in_the_api() -> None:
    went = msgspec.structs.replace(held("a", GPU, "GPU-0"), listed=False)
    holder = node_report(a_node(a_gpu("GPU-0")), (went,), {}).holders[0]
    assert (holder.device, holder.pod_uid, holder.foreign) == ("GPU-0", "", "team/a")
