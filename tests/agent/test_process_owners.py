"""A process is its pod's, whichever way the kubelet and the runtime name cgroups."""

from pathlib import Path

import pytest

from gpufleet.agent.kubelet.process_owners import ProcessOwner, owner_in, owner_of

UID = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"
CONTAINER = "5f" * 32
POD = f"pod{UID.replace('-', '_')}"
SCOPE = f"cri-containerd-{CONTAINER}.scope"


@pytest.mark.parametrize(
    "text",
    [
        # cgroups v2: systemd's driver, then the kubelet's own, then as seen from another container.
        f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-{POD}.slice/{SCOPE}",
        f"0::/kubepods/besteffort/pod{UID}/{CONTAINER}",
        f"0::/../../../kubepods-{POD}.slice/crio-{CONTAINER}.scope",
        # Guaranteed pods have no class in their path, and a runtime may go deeper.
        f"0::/kubepods/pod{UID}/{CONTAINER}/init",
        # cgroups v1, where not every hierarchy tells; a cluster within a container.
        f"12:rdma:/\n4:memory:/kubepods/burstable/pod{UID}/{CONTAINER}\n1:name=systemd:/init.scope\n",
        f"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-{POD}.slice/{SCOPE}",
    ],
)
def test_the_pod_and_the_container_are_read_from_the_path(text: str) -> None:
    assert owner_in(text) == ProcessOwner(UID, CONTAINER)


def test_a_static_pod_is_named_by_the_hash_of_its_file() -> None:
    assert owner_in(f"0::/kubepods/burstable/pod{'ab' * 16}/{CONTAINER}") == ProcessOwner(
        "ab" * 16, CONTAINER
    )


def test_the_pods_own_cgroup_names_no_container() -> None:
    assert owner_in(f"0::/kubepods/pod{UID}") == ProcessOwner(UID)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0::/",
        "0::/system.slice/nvidia-persistenced.service",
        "0::/user.slice/podman-0b1c.scope",
        f"0::/system.slice/containerd.service/{CONTAINER}",
        "nonsense",
        "0::/kubepods/pod/../../etc",
    ],
)
def test_what_is_in_no_pod_belongs_to_nobody(text: str) -> None:
    assert owner_in(text) is None


def test_a_process_is_looked_up_by_its_number(tmp_path: Path) -> None:
    (tmp_path / "17").mkdir()
    (tmp_path / "17" / "cgroup").write_text(f"0::/kubepods/pod{UID}/{CONTAINER}\n", encoding="ascii")
    assert owner_of(17, tmp_path) == ProcessOwner(UID, CONTAINER)
    assert owner_of(18, tmp_path) is None
