"""The CDI files of whole GPUs and MIG instances: what containers get, and what keeps the rest away."""

import json
import re
from pathlib import Path

from gpufleet.agent.device_plugin.cdi import CdiEdits, encode_spec, write_spec
from gpufleet.agent.device_plugin.driver_files import Root, driver_edits
from gpufleet.agent.device_plugin.static_devices import DeviceFiles, static_specs
from gpufleet.devices.sharing.delivery_options import DeliveryOptions
from gpufleet.model.gpu_catalogue import Vendor
from tests.agent.plugin_world import SIMULATED, a_gpu, a_node, cut, driver_files

GOLDEN = Path(__file__).parent / "data" / "cdi-nvidia.json"
FIELDS = {"cdiVersion", "kind", "annotations", "devices", "containerEdits"}
EDITS = {"env", "deviceNodes", "mounts", "hooks", "additionalGids", "intelRdt", "netDevices"}
NODE = {"path", "hostPath", "type", "major", "minor", "fileMode", "permissions", "uid", "gid"}
HOOK = {"hookName", "path", "args", "env", "timeout"}
MOUNT = {"hostPath", "containerPath", "options", "type"}


def files_of(folder: Path, *names: str) -> DeviceFiles:
    for name in names:
        path = folder / "dev" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return DeviceFiles(Root(folder))


def test_the_file_of_a_node_is_the_golden_one(tmp_path: Path) -> None:
    files = files_of(tmp_path, "nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-caps/nvidia-cap10")
    driver_files(tmp_path, "580.95.05", hook=True)
    edits = driver_edits("580.95.05", Root(tmp_path))
    specs = static_specs(a_node(a_gpu(0), cut(1, "1g.5gb")), files, edits)
    assert list(specs) == ["gpufleet.io-gpu-nvidia"]
    assert json.loads(encode_spec(specs["gpufleet.io-gpu-nvidia"])) == json.loads(GOLDEN.read_bytes())


def test_the_golden_file_is_one_that_every_runtime_loads() -> None:
    """The rules of the specification: unknown fields make a runtime refuse the file."""
    spec = json.loads(GOLDEN.read_bytes())
    assert set(spec) <= FIELDS
    assert re.fullmatch(r"[a-z0-9.]+\.[a-z]+/[A-Za-z0-9_.-]+", spec["kind"])
    assert spec["devices"]
    names = [device["name"] for device in spec["devices"]]
    assert len(set(names)) == len(names)
    for device in spec["devices"]:
        assert set(device) == {"name", "containerEdits"}
        assert re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?", device["name"])
    for edits in (spec["containerEdits"], *(device["containerEdits"] for device in spec["devices"])):
        assert set(edits) <= EDITS
        assert all("=" in one for one in edits.get("env", []))
        assert all({"path"} <= set(one) <= NODE for one in edits.get("deviceNodes", []))
        assert all({"hostPath", "containerPath"} <= set(one) <= MOUNT for one in edits.get("mounts", []))
        assert all({"hookName", "path"} <= set(one) <= HOOK for one in edits.get("hooks", []))
        assert all(one["hookName"] == "createContainer" for one in edits.get("hooks", []))
    # The first version with hostPath; nothing of a newer one is in the file.
    assert spec["cdiVersion"] == "0.5.0"


def test_each_of_nvidias_devices_hides_all_others_from_nvidias_runtime() -> None:
    spec = static_specs(a_node(a_gpu(0), cut(1, "1g.5gb")), SIMULATED, CdiEdits())["gpufleet.io-gpu-nvidia"]
    assert [device.name for device in spec.devices] == ["GPU-0", "GPU-1", "MIG-1-0"]
    for device in spec.devices:
        assert device.container_edits.env == ("NVIDIA_VISIBLE_DEVICES=void",)


def test_simulated_nodes_are_made_from_one_that_every_machine_has() -> None:
    spec = static_specs(a_node(a_gpu(3)), SIMULATED, CdiEdits())["gpufleet.io-gpu-nvidia"]
    nodes = {node.path: node.host_path for node in spec.devices[0].container_edits.device_nodes}
    assert nodes["/dev/nvidia3"] == nodes["/dev/nvidiactl"] == "/dev/null"


def test_each_vendor_has_a_file_of_its_own() -> None:
    node = a_node(a_gpu(0), a_gpu(1, vendor=Vendor.AMD), a_gpu(2, vendor=Vendor.INTEL))
    driver = CdiEdits(env=("A=B",))
    specs = static_specs(node, SIMULATED, driver)
    assert {name: spec.container_edits for name, spec in specs.items()} == {
        "gpufleet.io-gpu-nvidia": driver,
        "gpufleet.io-gpu-amd": CdiEdits(),
        "gpufleet.io-gpu-intel": CdiEdits(),
    }
    amd = specs["gpufleet.io-gpu-amd"].devices[0].container_edits
    assert [node.path for node in amd.device_nodes] == ["/dev/dri/renderD129", "/dev/kfd"]
    assert amd.env == ()


def test_a_device_root_of_the_host_goes_before_the_nodes(tmp_path: Path) -> None:
    files_of(tmp_path, "nvidia0")
    edits = static_specs(a_node(a_gpu(0)), DeviceFiles(Root(tmp_path, "/driver")), CdiEdits())
    (node,) = edits["gpufleet.io-gpu-nvidia"].devices[0].container_edits.device_nodes
    assert (node.path, node.host_path) == ("/dev/nvidia0", "/driver/dev/nvidia0")


def test_without_the_hook_libraries_are_shown_under_the_name_by_which_they_are_loaded(tmp_path: Path) -> None:
    driver_files(tmp_path, "580.95.05")
    edits = driver_edits("580.95.05", Root(tmp_path, "/driver"))
    folder = "usr/lib/x86_64-linux-gnu"
    shown = {mount.container_path: mount.host_path for mount in edits.mounts}
    assert shown[f"/{folder}/libcuda.so.1"] == f"/driver/{folder}/libcuda.so.580.95.05"
    assert shown[f"/{folder}/libcuda.so.580.95.05"] == f"/driver/{folder}/libcuda.so.580.95.05"
    assert shown["/usr/bin/nvidia-smi"] == "/driver/usr/bin/nvidia-smi"
    assert not any("libc.so" in path for path in shown)
    assert edits.hooks == ()


def test_another_version_of_the_driver_is_not_taken(tmp_path: Path) -> None:
    driver_files(tmp_path, "580.95.05")
    assert driver_edits("570.1", Root(tmp_path)) == CdiEdits()


def test_a_library_that_two_folders_lead_to_is_shown_once(tmp_path: Path) -> None:
    driver_files(tmp_path, "580.95.05")
    (tmp_path / "lib").mkdir(exist_ok=True)
    (tmp_path / "lib/x86_64-linux-gnu").symlink_to(tmp_path / "usr/lib/x86_64-linux-gnu")
    paths = [mount.container_path for mount in driver_edits("580.95.05", Root(tmp_path)).mounts]
    assert len([path for path in paths if path.endswith("libcuda.so.580.95.05")]) == 1


def test_in_a_pod_the_driver_is_where_the_machine_is_mounted(tmp_path: Path) -> None:
    options = DeliveryOptions(("cdi-cri",), container_driver_root=str(tmp_path / "driver-root"))
    files = DeviceFiles(in_pod=True)
    assert files.under(options).driver is None
    files_of(tmp_path / "driver-root", "nvidia7")
    found = files.under(options)
    assert found.driver == Root(tmp_path / "driver-root", "/")
    assert found.on_host("/dev/nvidia7") == "/dev/nvidia7"
    elsewhere = DeviceFiles(folder="/run/nvidia/driver", in_pod=True).under(options)
    assert elsewhere.driver == Root(tmp_path / "driver-root", "/run/nvidia/driver")
    assert elsewhere.on_host("/dev/nvidia7") == "/run/nvidia/driver/dev/nvidia7"


def test_the_roots_of_the_configuration_count(tmp_path: Path) -> None:
    """nvidiaDriverRoot and nvidiaDevRoot are folders of the machine, which an agent outside of pods sees."""
    driver, nodes = tmp_path / "driver", tmp_path / "nodes"
    files_of(nodes, "nvidia0")
    options = DeliveryOptions(("cdi-cri",), driver_root=str(driver), dev_root=str(nodes))
    found = DeviceFiles().under(options)
    assert found.driver == Root(driver, str(driver))
    assert found.on_host("/dev/nvidia0") == f"{nodes}/dev/nvidia0"
    assert SIMULATED.under(options) is SIMULATED


def test_the_file_is_loaded_by_its_own_reader(tmp_path: Path) -> None:
    spec = static_specs(a_node(a_gpu(0)), SIMULATED, CdiEdits())["gpufleet.io-gpu-nvidia"]
    write_spec(tmp_path, "gpufleet.io-gpu-nvidia", spec)
    assert json.loads((tmp_path / "gpufleet.io-gpu-nvidia.json").read_bytes())["kind"] == "gpufleet.io/gpu"
