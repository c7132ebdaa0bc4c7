"""Another device plugin on the node is seen by its socket, and by one that answers alone."""

import socket
from pathlib import Path

from gpufleet.agent.device_plugin.kubelet_link import socket_name
from gpufleet.agent.device_plugin.other_plugins import other_plugins


def listening(path: Path) -> socket.socket:
    """A plugin that serves there."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(str(path))
    server.listen()
    return server


def test_plugins_that_answer_are_named_and_what_is_ours_or_the_kubelets_is_not(folder: Path) -> None:
    names = ("nvidia-gpu.sock", "nvidiaGPU-1700000000.sock", socket_name("nvidia.com/gpu"), "kubelet.sock")
    servers = [listening(folder / name) for name in names]
    assert other_plugins(folder) == ("nvidia-gpu.sock", "nvidiaGPU-1700000000.sock")
    for server in servers:
        server.close()
    assert other_plugins(folder) == ()


def test_what_is_no_socket_and_a_folder_that_is_not_there_have_none(folder: Path) -> None:
    (folder / "nvidia-notes.txt").write_text("", encoding="utf-8")
    assert other_plugins(folder) == ()
    assert other_plugins(folder / "missing") == ()


def test_a_folder_with_a_long_path_is_no_hindrance(folder: Path) -> None:
    deep = folder / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    short = folder / "short"
    short.symlink_to(deep)
    server = listening(short / "nvidia.sock")
    assert other_plugins(deep) == ("nvidia.sock",)
    server.close()
