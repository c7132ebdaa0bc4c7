"""The files and command lines of one control plane: etcd, kube-apiserver, kube-controller-manager, KWOK.

`prepare` fills a cluster's folder with keys and kubeconfigs, `programs` says what to run there; `cluster`
hands both to a `supervisor`. etcd listens on a socket inside the folder, which only its owner may enter, and
not on a port: an etcd that answers on loopback would give every user of the machine the whole cluster.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpufleet.kube.meanings.node_labels import KWOK_NODE
from gpufleet.localkube import features
from gpufleet.localkube.access import kubeconfig
from gpufleet.localkube.access.certificates import Authority, Identity, new_key, write_private
from gpufleet.localkube.access.ports import LOOPBACK
from gpufleet.localkube.node import configuration as real_node
from gpufleet.localkube.node.network import NodeNetwork
from gpufleet.localkube.processes.folders import PRIVATE
from gpufleet.localkube.processes.plan import LOGS, Program, Stage
from gpufleet.localkube.programs.releases import DEFAULT_KUBERNETES

# Sockets in the folder; etcd wants them to look like a host and a port.
ETCD_SOCKET = "unix://etcd:1"
PEER_SOCKET = "unix://peer:1"
SERVICE_ADDRESSES = "10.96.0.0/16"
FIRST_SERVICE_ADDRESS = "10.96.0.1"
SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
SIMULATED_VALUE = "fake"
"""What the annotation of nodes says that KWOK plays here."""

NODE_LEASE_S = 40
"""The kubelet's default."""

SIMULATED_LIFECYCLES = Path(__file__).with_name("simulated_lifecycles.yaml")

KUBECONFIG = "kubeconfig"
ADMINISTRATOR = "admin"
FRONT_PROXY = "front-proxy-client"
"""The name by which the API server asks the servers of aggregated APIs, such as those of metrics."""

CLIENTS = {
    "kube-controller-manager": ("system:kube-controller-manager", ()),
    "kube-scheduler": ("system:kube-scheduler", ()),
    # KWOK acts for every node at once, which no single node's identity may.
    "kwok": ("kwok", ("system:masters",)),
}
"""User and groups of each program that speaks to the API server."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a control plane shall be like.

    ``feature_gates`` are added to those that gpufleet needs; ``flags`` are added to a program's command
    line, by its name, and win over ours. ``simulated_nodes`` starts KWOK, ``real_node`` a kubelet,
    ``kube_scheduler`` Kubernetes' own scheduler.
    """

    kubernetes: str = DEFAULT_KUBERNETES
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    simulated_nodes: bool = True
    real_node: bool = False
    kube_scheduler: bool = False


@dataclass(frozen=True, slots=True)
class Component:
    """A program of ours that runs with the cluster, as this user, with NAME.kubeconfig in its folder.

    ``lease`` (namespace, name) is one that it holds when it is at work; the start waits for a program with a
    lease alone. ``at_work`` is what its log says when it is at work, where holding the lease is not all.
    """

    name: str
    command: tuple[str, ...]
    user: str
    groups: tuple[str, ...] = ()
    lease: tuple[str, str] | None = None
    at_work: str = ""

    @property
    def program(self) -> Program:
        """The program as its supervisor is told of it."""
        return Program(self.name, self.command, Stage.FURNISHED)


Users = Mapping[str, tuple[str, tuple[str, ...]]]
"""User and groups by program."""


def prepare(folder: Path, name: str, port: int, users: Users, network: NodeNetwork | None = None) -> None:
    """Make the folder of a new cluster with its keys and the kubeconfigs of its users.

    ``network`` is that of its real node, if it shall have one.
    """
    (folder / LOGS).mkdir(parents=True, mode=PRIVATE)
    folder.chmod(PRIVATE)
    authority = Authority.new(f"gpufleet {name}")
    address = FIRST_SERVICE_ADDRESS if network is None else network.api_address
    server = authority.server(SERVER_NAMES, (LOOPBACK, address))
    _write_identity(folder, "ca", authority.identity)
    _write_identity(folder, "server", server)
    write_private(folder / "service-accounts.key", new_key())
    administrator = authority.client(ADMINISTRATOR, ("system:masters",))
    _write_identity(folder, ADMINISTRATOR, administrator)
    # An authority of its own: a client with a certificate of it may speak in the name of any user.
    front_proxy = Authority.new(f"gpufleet {name} front proxy")
    write_private(folder / "front-proxy-ca.crt", front_proxy.identity.certificate)
    _write_identity(folder, FRONT_PROXY, front_proxy.client(FRONT_PROXY))
    url = f"https://{LOOPBACK}:{port}"
    certificate = authority.identity.certificate
    kubeconfig.write(folder / KUBECONFIG, f"gpufleet-{name}", url, certificate, administrator)
    kubelet = {} if network is None else {"kubelet": real_node.user()}
    for program, (user, groups) in {**CLIENTS, **kubelet, **users}.items():
        identity = authority.client(user, groups)
        kubeconfig.write(folder / f"{program}.kubeconfig", f"gpufleet-{name}", url, certificate, identity)


def programs(
    binaries: Mapping[str, Path], port: int, options: Options, network: NodeNetwork | None = None
) -> tuple[Program, ...]:
    """The programs in the order of their start; ``binaries`` has the path of each by its name."""
    found = [
        _program("etcd", binaries, _etcd(), options),
        _program("kube-apiserver", binaries, _api_server(port, options, network), options),
        _program("kube-controller-manager", binaries, _controllers(options), options, after=Stage.API_READY),
    ]
    if options.simulated_nodes:
        found.append(_program("kwok", binaries, KWOK_FLAGS, options, after=Stage.API_READY))
    if options.kube_scheduler:
        found.append(
            _program("kube-scheduler", binaries, KUBE_SCHEDULER_FLAGS, options, after=Stage.API_READY)
        )
    return tuple(found)


def needed_programs(options: Options) -> tuple[str, ...]:
    """The names of the binaries that `programs` asks for."""
    simulated = ("kwok",) if options.simulated_nodes else ()
    real = real_node.PROGRAMS if options.real_node else ()
    scheduler = ("kube-scheduler",) if options.kube_scheduler else ()
    return ("etcd", "kube-apiserver", "kube-controller-manager", *simulated, *scheduler, *real)


KUBE_SCHEDULER_FLAGS = (
    "--kubeconfig=kube-scheduler.kubeconfig",
    # One cluster has one, so there is nothing to elect; a port of its own would be one more to guard.
    "--leader-elect=false",
    "--secure-port=0",
)
KWOK_FLAGS = (
    "--kubeconfig=kwok.kubeconfig",
    f"--config={SIMULATED_LIFECYCLES}",
    f"--manage-nodes-with-annotation-selector={KWOK_NODE}={SIMULATED_VALUE}",
    f"--node-lease-duration-seconds={NODE_LEASE_S}",
)


def _program(
    name: str,
    binaries: Mapping[str, Path],
    flags: tuple[str, ...],
    options: Options,
    *,
    after: Stage = Stage.NOTHING,
) -> Program:
    command = (str(binaries[name]), *flags, *options.flags.get(name, ()))
    return Program(name, command, after)


def _etcd() -> tuple[str, ...]:
    return (
        "--name=local",
        "--data-dir=etcd",
        f"--listen-client-urls={ETCD_SOCKET}",
        f"--advertise-client-urls={ETCD_SOCKET}",
        f"--listen-peer-urls={PEER_SOCKET}",
        f"--initial-advertise-peer-urls={PEER_SOCKET}",
        f"--initial-cluster=local={PEER_SOCKET}",
        "--log-level=warn",
        # A local cluster does not outlive a power cut anyway.
        "--unsafe-no-fsync",
    )


def _api_server(port: int, options: Options, network: NodeNetwork | None) -> tuple[str, ...]:
    gates = {**features.api_server_gates(options.kubernetes), **options.feature_gates}
    served = features.served_groups(options.kubernetes)
    return (
        f"--etcd-servers={ETCD_SOCKET}",
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        # Loopback is no address for endpoints, and a machine without a network has no other.
        "--endpoint-reconciler-type=none",
        f"--secure-port={port}",
        "--permit-port-sharing=true",
        "--tls-cert-file=server.crt",
        "--tls-private-key-file=server.key",
        "--client-ca-file=ca.crt",
        *FRONT_PROXY_FLAGS,
        "--anonymous-auth=false",
        "--authorization-mode=Node,RBAC",
        "--service-account-key-file=service-accounts.key",
        "--service-account-signing-key-file=service-accounts.key",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-cluster-ip-range={SERVICE_ADDRESSES if network is None else network.services}",
        "--allow-privileged=true",
        *(() if network is None else REAL_NODE_FLAGS),
        *_switches("--feature-gates", gates),
        *([f"--runtime-config={','.join(served)}"] if served else []),
    )


FRONT_PROXY_FLAGS = (
    "--requestheader-client-ca-file=front-proxy-ca.crt",
    f"--requestheader-allowed-names={FRONT_PROXY}",
    "--requestheader-username-headers=X-Remote-User",
    "--requestheader-uid-headers=X-Remote-Uid",
    "--requestheader-group-headers=X-Remote-Group",
    "--requestheader-extra-headers-prefix=X-Remote-Extra-",
    f"--proxy-client-cert-file={FRONT_PROXY}.crt",
    f"--proxy-client-key-file={FRONT_PROXY}.key",
)
REAL_NODE_FLAGS = (
    # A kubelet may write to its own node and the pods there, and to nothing else.
    "--enable-admission-plugins=NodeRestriction",
    "--kubelet-preferred-address-types=InternalIP",
    "--kubelet-certificate-authority=ca.crt",
    f"--kubelet-client-certificate={ADMINISTRATOR}.crt",
    f"--kubelet-client-key={ADMINISTRATOR}.key",
)


def _controllers(options: Options) -> tuple[str, ...]:
    gates = {**features.api_server_gates(options.kubernetes), **options.feature_gates}
    return (
        "--kubeconfig=kube-controller-manager.kubeconfig",
        "--service-account-private-key-file=service-accounts.key",
        "--root-ca-file=ca.crt",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        "--secure-port=0",
        # By default it makes a folder of the whole machine.
        "--flex-volume-plugin-dir=volume-plugins",
        # Its own default of 20 requests a second makes a Deployment of a thousand pods take a minute.
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        *_switches("--feature-gates", gates),
    )


def _switches(flag: str, gates: Mapping[str, bool]) -> list[str]:
    listed = ",".join(f"{gate}={'true' if on else 'false'}" for gate, on in sorted(gates.items()))
    return [f"{flag}={listed}"] if listed else []


def _write_identity(folder: Path, name: str, identity: Identity) -> None:
    write_private(folder / f"{name}.crt", identity.certificate)
    write_private(folder / f"{name}.key", identity.key)
