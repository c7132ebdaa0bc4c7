"""What a container gets for its units, in each way that a node may be set up."""

from pathlib import Path

import pytest

from gpufleet.agent.device_plugin.delivery import BY_CDI, Delivery
from gpufleet.agent.device_plugin.driver_files import Root
from gpufleet.agent.device_plugin.static_devices import DeviceFiles
from gpufleet.agent.device_plugin.unit_allocator import AllocateResponse, DeviceNode, HostMount
from gpufleet.agent.state.node_state import NodeGpus
from gpufleet.agent.units.node_units import node_units
from gpufleet.devices.facts import MigFacts
from gpufleet.devices.sharing.delivery_options import DeliveryOptions
from gpufleet.devices.sharing.plan import Mig, TimeSlice
from gpufleet.model.gpu_catalogue import Vendor
from tests.agent.plugin_world import SIMULATED, a_gpu, a_node, cut


def given(
    node: NodeGpus, options: DeliveryOptions, *names: str, files: DeviceFiles = SIMULATED
) -> AllocateResponse:
    units = node_units(node)
    return Delivery(files, options).give(node, [units[name] for name in names])


def by(*strategies: str, **more: object) -> DeliveryOptions:
    return DeliveryOptions(strategies, **more)  # type: ignore[arg-type]


def test_cdi_names_each_card_once_whatever_the_number_of_its_replicas() -> None:
    found = given(a_node(a_gpu(0, TimeSlice(3)), a_gpu(1)), BY_CDI, "GPU-0::0", "GPU-0::2", "GPU-1")
    assert found.cdi_devices == ("gpufleet.io/gpu=GPU-0", "gpufleet.io/gpu=GPU-1")
    assert found.environment == {"GPUFLEET_DEVICES": "GPU-0::0,GPU-0::2,GPU-1"}
    assert (found.device_nodes, found.mounts, found.annotations) == ((), (), {})


def test_cdi_annotations_carry_the_same_names_under_the_configured_prefix() -> None:
    options = by("cdi-annotations", cdi_annotation_prefix="cdi.example.com/")
    found = given(a_node(a_gpu(0, TimeSlice(2))), options, "GPU-0::1")
    assert found.annotations == {"cdi.example.com/gpufleet_GPU-0__1": "gpufleet.io/gpu=GPU-0"}


@pytest.mark.parametrize(("by_index", "names"), [(False, "GPU-1,MIG-0-1"), (True, "1,0:1")])
def test_the_environment_names_uuids_or_indices(by_index: bool, names: str) -> None:
    node = a_node(cut(0, "1g.5gb", "1g.5gb"), a_gpu(1))
    found = given(node, by("envvar", ids_by_index=by_index), "GPU-1", "MIG-0-1")
    assert found.environment["NVIDIA_VISIBLE_DEVICES"] == names
    assert found.cdi_devices == ()


def test_the_environment_asks_for_what_is_beside_the_gpus() -> None:
    options = by("envvar", gds=True, mofed=True, imex_channels=(0,))
    found = given(a_node(a_gpu(0)), options, "GPU-0").environment
    assert {
        name: found[name] for name in found if name not in {"GPUFLEET_DEVICES", "NVIDIA_VISIBLE_DEVICES"}
    } == {
        "NVIDIA_GDS": "enabled",
        "NVIDIA_MOFED": "enabled",
        "NVIDIA_IMEX_CHANNELS": "0",
    }


def test_volume_mounts_name_devices_by_paths() -> None:
    found = given(a_node(a_gpu(0)), by("volume-mounts", imex_channels=(0,)), "GPU-0")
    folder = "/var/run/nvidia-container-devices"
    assert found.environment["NVIDIA_VISIBLE_DEVICES"] == folder
    assert found.mounts == (
        HostMount(f"{folder}/GPU-0", "/dev/null"),
        HostMount(f"{folder}/imex/0", "/dev/null"),
    )


def test_device_specs_are_the_nodes_that_the_machine_has(tmp_path: Path) -> None:
    for name in ("nvidia0", "nvidiactl", "nvidia-caps/nvidia-cap11"):
        path = tmp_path / "dev" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    found = given(
        a_node(cut(0, "1g.5gb", "1g.5gb")),
        by("envvar", device_specs=True),
        "MIG-0-1",
        files=DeviceFiles(Root(tmp_path)),
    )
    paths = ("/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap11", "/dev/nvidiactl")
    assert found.device_nodes == tuple(DeviceNode(path, path) for path in paths)


def test_amds_partitions_have_their_own_nodes_and_the_one_of_all() -> None:
    part = MigFacts("GPU-0-p1", "cpx_nps4", 1, 1, 0, device_nodes=("/dev/dri/renderD129",))
    node = a_node(a_gpu(0, Mig(None), vendor=Vendor.AMD, mig=[part]))
    found = given(node, by("envvar"), "GPU-0-p1")
    assert [one.container_path for one in found.device_nodes] == ["/dev/dri/renderD129", "/dev/kfd"]
    assert "NVIDIA_VISIBLE_DEVICES" not in found.environment
    assert given(node, BY_CDI, "GPU-0-p1").cdi_devices == ("gpufleet.io/gpu=GPU-0-p1",)


def test_what_somebody_else_adds_is_there_too() -> None:
    node = a_node(a_gpu(0))
    addition = AllocateResponse(
        {"CUDA_MPS_PIPE_DIRECTORY": "/mps"}, mounts=(HostMount("/mps", "/run/mps", read_only=False),)
    )
    delivery = Delivery(
        SIMULATED, BY_CDI, lambda gpus: addition if gpus[0].uuid == "GPU-0" else AllocateResponse()
    )
    found = delivery.give(node, list(node_units(node).values()))
    assert found.environment["CUDA_MPS_PIPE_DIRECTORY"] == "/mps"
    assert found.mounts == addition.mounts
