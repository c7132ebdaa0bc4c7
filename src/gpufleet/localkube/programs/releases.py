"""Which programs make a local cluster, at which versions, and where each comes from.

The one table that `pin_modules` (writes the Go modules), `building` (builds them) and `downloading`
(fetches official releases) read. A version of Kubernetes can be built when its Go module is pinned in
`gomodules/`; `make kube-pin VERSION=...` pins another.
"""

from dataclasses import dataclass
from pathlib import Path

from gpufleet.model.model_errors import InputError

GO_MODULES = Path(__file__).parent / "gomodules"

DEFAULT_KUBERNETES = "1.37.0"
ETCD = "3.6.8"
KWOK = "0.8.0"
CONTAINERD = "2.4.2"
CNI_PLUGINS = "1.9.1"
RUNC = "1.4.3"
BUSYBOX = "1.36.1"

# Of one release of Kubernetes, and downloaded together.
CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
KUBERNETES_PROGRAMS = (*CONTROL_PLANE, "kubelet")
CONTAINERD_PROGRAMS = ("containerd", "containerd-shim-runc-v2", "ctr")


@dataclass(frozen=True, slots=True)
class Release:
    """One project at one version: the programs it brings and the Go module they are built from.

    ``packages`` has the Go package of each program, ``linker_flags`` tell the program its version, ``tags``
    leave parts out or take them in, ``needs_c`` are the C libraries (by their pkg-config names) that a build
    needs. On PATH a program of exactly this version is taken, or from ``oldest`` on where that is set, or
    none at all where its name may mean another program.
    """

    project: str
    version: str
    module: str
    packages: tuple[tuple[str, str], ...]
    linker_flags: str
    tags: tuple[str, ...] = ()
    needs_c: tuple[str, ...] = ()
    oldest: tuple[int, int, int] | None = None
    from_path: bool = True
    pins: Path = GO_MODULES

    @property
    def pinned(self) -> Path:
        """The folder with the committed go.mod and go.sum."""
        return self.pins / f"{self.project}-{self.version}"

    @property
    def folder_name(self) -> str:
        """The release's folder in the cache; Kubernetes, which names the others, by its version alone."""
        return self.version if self.project == "kubernetes" else f"{self.project}-{self.version}"

    @property
    def programs(self) -> tuple[str, ...]:
        """The names of its programs."""
        return tuple(program for program, _ in self.packages)


def kubernetes(version: str) -> Release:
    """Kubernetes at this version ("1.37.0"); InputError if it is no version."""
    major, minor = minor_version(version)
    variable = "k8s.io/component-base/version"
    return Release(
        project="kubernetes",
        version=version,
        module="k8s.io/kubernetes",
        packages=tuple((program, f"k8s.io/kubernetes/cmd/{program}") for program in KUBERNETES_PROGRAMS),
        linker_flags=(
            f"-X {variable}.gitVersion=v{version} "
            f"-X {variable}.gitMajor={major} -X {variable}.gitMinor={minor}"
        ),
    )


def etcd() -> Release:
    """The etcd that every local cluster uses."""
    return Release("etcd", ETCD, "go.etcd.io/etcd/server/v3", (("etcd", "go.etcd.io/etcd/server/v3"),), "")


def kwok() -> Release:
    """KWOK, which plays the kubelets of simulated nodes."""
    return Release(
        project="kwok",
        version=KWOK,
        module="sigs.k8s.io/kwok",
        packages=(("kwok", "sigs.k8s.io/kwok/cmd/kwok"),),
        linker_flags=f"-X sigs.k8s.io/kwok/pkg/consts.Version=v{KWOK}",
    )


def containerd() -> Release:
    """The container runtime of a real node, its shim and its command line."""
    module = "github.com/containerd/containerd/v2"
    return Release(
        project="containerd",
        version=CONTAINERD,
        module=module,
        packages=tuple((name, f"{module}/cmd/{name}") for name in CONTAINERD_PROGRAMS),
        linker_flags=f"-X {module}/version.Version=v{CONTAINERD}",
        tags=("no_btrfs", "no_devmapper", "no_zfs", "no_aufs"),
    )


def cni_plugins() -> Release:
    """What connects the pods of a real node with one another."""
    module = "github.com/containernetworking/plugins"
    folders = {"bridge": "main", "loopback": "main", "host-local": "ipam"}
    return Release(
        project="cni-plugins",
        version=CNI_PLUGINS,
        module=module,
        packages=tuple((name, f"{module}/plugins/{kind}/{name}") for name, kind in folders.items()),
        linker_flags=f"-X {module}/pkg/utils/buildversion.BuildVersion=v{CNI_PLUGINS}",
        # iproute2 has another program called bridge.
        from_path=False,
    )


def runc() -> Release:
    """What starts the containers of a real node; any that a distribution ships will do."""
    module = "github.com/opencontainers/runc"
    return Release(
        project="runc",
        version=RUNC,
        module=module,
        packages=(("runc", module),),
        linker_flags="",
        tags=("seccomp",),
        needs_c=("libseccomp",),
        oldest=(1, 1, 0),
    )


def busybox() -> Release:
    """The busybox of a real node's images; there is nothing to download or build."""
    return Release("busybox", BUSYBOX, "", (("busybox", ""),), "", oldest=(1, 31, 0))


def minor_version(version: str) -> tuple[int, int]:
    """(1, 37) of "1.37.0"; InputError for anything that is not three numbers."""
    parts = version.split(".")
    if len(parts) != 3 or not all(part.isascii() and part.isdecimal() for part in parts):
        raise InputError(
            "no version of Kubernetes",
            field="--kubernetes",
            value=version,
            expected=f"three numbers such as {DEFAULT_KUBERNETES}",
        )
    return int(parts[0]), int(parts[1])


def pinned_kubernetes_versions() -> tuple[str, ...]:
    """The versions of Kubernetes that can be built here, newest first."""
    folders = GO_MODULES.glob("kubernetes-*")
    versions = (folder.name.removeprefix("kubernetes-") for folder in folders)
    return tuple(sorted(versions, key=lambda text: [int(part) for part in text.split(".")], reverse=True))


def release_of(program: str, kubernetes_version: str) -> Release:
    """The release that brings a program, for a cluster of this Kubernetes version."""
    releases = (kubernetes(kubernetes_version), *others())
    return next(release for release in releases if program in release.programs)


def others() -> tuple[Release, ...]:
    """Every release beside Kubernetes itself."""
    return (etcd(), kwok(), *node_releases(), busybox())


def node_releases() -> tuple[Release, ...]:
    """What a real node needs beside its kubelet."""
    return (containerd(), cni_plugins(), runc())
