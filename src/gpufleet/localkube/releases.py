"""Which programs make a local cluster, at which versions, and where each comes from.

The one table that `pin_modules` (writes the Go modules), `building` (builds them) and `downloading`
(fetches official releases) read. A version of Kubernetes can be built when its Go module is pinned in
`gomodules/`; `make kube-pin VERSION=...` pins another.
"""

from dataclasses import dataclass
from pathlib import Path

from gpufleet.model.errors import InputError

GO_MODULES = Path(__file__).parent / "gomodules"

DEFAULT_KUBERNETES = "1.37.0"
ETCD = "3.6.8"
KWOK = "0.8.0"

CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
KUBERNETES_PROGRAMS = (*CONTROL_PLANE, "kubelet")


@dataclass(frozen=True, slots=True)
class Release:
    """One project at one version: the programs it brings and the Go module they are built from.

    ``packages`` has the Go package of each program, ``linker_flags`` tell the program its version.
    """

    project: str
    version: str
    module: str
    packages: tuple[tuple[str, str], ...]
    linker_flags: str

    @property
    def pinned(self) -> Path:
        """The folder with the committed go.mod and go.sum."""
        return GO_MODULES / f"{self.project}-{self.version}"

    @property
    def folder_name(self) -> str:
        """Its folder in the cache; Kubernetes, which names the others, by its version alone."""
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
    releases = (kubernetes(kubernetes_version), etcd(), kwok())
    return next(release for release in releases if program in release.programs)
