"""A FleetPolicy: how the GPU nodes that it selects are to be.

Each field that a policy names is its own on these nodes; what it does not name is none of its business.
Which labels and taints a policy may name is decided here, so that all sources of policies are held to it.
``kube.codec.fleet_policies`` reads the object; ``operator.assignment`` says which one holds for which node.
"""

import enum
import re
from collections.abc import Iterator

import msgspec

from gpufleet.model.identifiers import FleetPolicyName
from gpufleet.model.label_syntax import check_label_key, check_label_value
from gpufleet.model.labels import LabelSelector
from gpufleet.model.mig_period import MigPeriod
from gpufleet.model.model_errors import InputError
from gpufleet.model.node_images import NodeImages
from gpufleet.model.rollout_settings import RolloutSettings
from gpufleet.model.taint import Taint

OPT_OUT_LABEL = "gpufleet.io/fleet-policy"
"""The label by which a node opts out of all policies; its value is ``OPTED_OUT``."""

OPTED_OUT = "ignore"
OWN_DOMAIN = "gpufleet.io"
NODE_ROLES = "node-role.kubernetes.io"
"""The one domain of Kubernetes in which administrators name labels of nodes themselves."""

KUBERNETES_DOMAINS = ("kubernetes.io", "k8s.io")

DEPLOY_PREFIX = "nvidia.com/gpu.deploy."
"""Labels by which parts of NVIDIA's operator are told to run on a node, or to pause."""

UPGRADE_STATE_LABEL = "nvidia.com/gpu-driver-upgrade-state"
"""The label in which NVIDIA's operator keeps how far the upgrade of a node's driver is."""

SKIP_DRIVER_LABEL, SKIPS = "nvidia.com/gpu-driver-upgrade.skip", "true"
"""The label by which administrators of NVIDIA's operator keep the driver of a node as it is."""

DISCOVERED_PREFIXES = ("feature.node.kubernetes.io/", DEPLOY_PREFIX, "nvidia.com/gpu-driver-upgrade")
"""Labels that feature discovery and driver managers write, and read from each other."""

MIG_LAYOUT_LABEL = "nvidia.com/mig.config"
"""The label by which NVIDIA's MIG manager, and what speaks its protocol, is told a layout by name."""

MIG_STATE_LABEL = "nvidia.com/mig.config.state"
"""The label in which the MIG manager says what became of a layout: pending, rebooting, success or failed."""

MIG_MANAGER_LABEL = "nvidia.com/gpu.deploy.mig-manager"
"""The label by which NVIDIA's GPU operator runs its MIG Manager on a node; "false" where it does not."""

SHARING_CONFIG_LABEL = "nvidia.com/device-plugin.config"
"""The label by which agents and NVIDIA's device plugin choose among sharing configs."""

FIELD_OF_LABEL = {MIG_LAYOUT_LABEL: "migLayout", SHARING_CONFIG_LABEL: "sharingConfig"}
"""Labels that are written through a field of their own."""

IMAGE_PATTERN = r"[a-z0-9]([-a-zA-Z0-9._:/]*[a-zA-Z0-9])?@sha256:[a-f0-9]{64}"
"""An image by digest: a tag may name other content tomorrow, and then no rollback would lead back."""

IMAGE_LENGTH_MAX = 512
"""Registries take names of at most 255 characters, and a digest has 71."""

_IMAGE = re.compile(IMAGE_PATTERN)
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z._+-]{0,62}")


class DriverSource(enum.Enum):
    """Where the driver of a node comes from."""

    HOST = "Host"
    IMAGE = "Image"


class DriverBuild(enum.Enum):
    """Whether the image brings modules for the kernel, or builds them on the node."""

    PRECOMPILED = "Precompiled"
    BUILT = "Built"


class KernelModules(enum.Enum):
    """Which kernel modules of NVIDIA's driver: AUTO leaves it to the driver and the card."""

    AUTO = "Auto"
    OPEN = "Open"
    PROPRIETARY = "Proprietary"


class RuntimeMode(enum.Enum):
    """How containers get devices: by CDI, or by the vendor's toolkit as a runtime."""

    CDI = "CDI"
    TOOLKIT = "Toolkit"


class Driver(msgspec.Struct, frozen=True):
    """The driver that nodes are to have.

    ``image`` is a repository with a digest, and with Host empty; ``version`` is what the driver calls itself,
    "" for any.
    """

    source: DriverSource
    image: str = ""
    version: str = ""
    build: DriverBuild = DriverBuild.BUILT
    kernel_modules: KernelModules = KernelModules.AUTO

    def __post_init__(self) -> None:
        if self.version and not _VERSION.fullmatch(self.version):
            expected = "a version as the driver tells it, such as 595.91.07"
            raise InputError("not a version", field="version", value=self.version, expected=expected)
        if self.source is DriverSource.IMAGE:
            check_image(self.image, "image")
            return
        if self.image:
            expected = "no image, or source Image"
            raise InputError(
                "a driver of the host has no image", field="image", value=self.image, expected=expected
            )
        if self.build is DriverBuild.PRECOMPILED:
            expected = "no build, or source Image"
            raise InputError(
                "a driver of the host is not built by a policy",
                field="build",
                value=self.build.value,
                expected=expected,
            )


class Runtime(msgspec.Struct, frozen=True):
    """How containers of nodes are to get devices; ``image`` is the toolkit's, and with CDI empty."""

    mode: RuntimeMode
    image: str = ""

    def __post_init__(self) -> None:
        if self.mode is RuntimeMode.TOOLKIT:
            check_image(self.image, "image")
        elif self.image:
            expected = "no image, or mode Toolkit"
            raise InputError("CDI needs no image", field="image", value=self.image, expected=expected)


class FleetPolicy(msgspec.Struct, frozen=True):
    """What one policy says. None, "" and empty tuples are fields that it does not name.

    ``sharing_config`` names a sharing config of the agents, ``mig_layout`` a layout of the MIG manager.
    ``mig_periods`` are times at which cards have another layout, which the agents carry out.
    ``rollout`` says how the images of driver and toolkit go through the nodes.
    """

    name: FleetPolicyName
    selector: LabelSelector
    driver: Driver | None = None
    runtime: Runtime | None = None
    sharing_config: str = ""
    mig_layout: str = ""
    mig_periods: tuple[MigPeriod, ...] = ()
    rollout: RolloutSettings | None = None
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()

    def __post_init__(self) -> None:
        for field, text in (("sharingConfig", self.sharing_config), ("migLayout", self.mig_layout)):
            check_label_value(text, field)
        if self.mig_layout and self.mig_periods:
            expected = "migPeriods, or migLayout for NVIDIA's MIG manager"
            raise InputError("two that cut the same cards", field="migPeriods", expected=expected)
        if self.rollout is not None and not self.images.parts:
            expected = "a driver of source Image or a runtime of mode Toolkit, or no rollout"
            raise InputError("settings of a rollout that cannot be", field="rollout", expected=expected)
        for key, value in self.labels:
            _check_label(key, value)
        for position, taint in enumerate(self.taints):
            _check_taint(taint, f"taints[{position}].key")
        read = {requirement.key for requirement in self.selector.requirements}
        for key, value in self.written_labels():
            if key in read:
                raise InputError(
                    "a label that the policy also selects by",
                    field=FIELD_OF_LABEL.get(key, f"labels[{key}]"),
                    value=value,
                    expected="another label in nodeSelector: this one would change which nodes are selected",
                )

    @property
    def images(self) -> NodeImages:
        """The images that a rollout is to bring; without any the policy has no rollout."""
        # With source Host and mode CDI the images are empty.
        return NodeImages(
            "" if self.driver is None else self.driver.image,
            "" if self.runtime is None else self.runtime.image,
        )

    def written_labels(self) -> Iterator[tuple[str, str]]:
        """Every label that the policy writes on its nodes, with those of fields of their own."""
        if self.sharing_config:
            yield SHARING_CONFIG_LABEL, self.sharing_config
        if self.mig_layout:
            yield MIG_LAYOUT_LABEL, self.mig_layout
        yield from self.labels


def check_image(image: str, field: str) -> None:
    """Raises InputError unless an image is named by digest."""
    if len(image) > IMAGE_LENGTH_MAX or not _IMAGE.fullmatch(image):
        raise InputError(
            "not an image by digest",
            field=field,
            value=image,
            expected="REPOSITORY@sha256:DIGEST, of 64 digits from 0 to f",
        )


def _check_label(key: str, value: str) -> None:
    field = f"labels[{key}]"
    check_label_key(key, "labels")
    check_label_value(value, field)
    if key in FIELD_OF_LABEL:
        raise InputError(
            "a label with a field of its own", field=field, value=value, expected=FIELD_OF_LABEL[key]
        )
    if key.startswith(DISCOVERED_PREFIXES):
        expected = "a label that neither discovery nor a driver manager writes"
        raise InputError("a label of others", field=field, value=value, expected=expected)
    _check_domain(key, field)


def _check_taint(taint: Taint, field: str) -> None:
    _check_domain(taint.key, field)


def _check_domain(key: str, field: str) -> None:
    domain, slash, _ = key.rpartition("/")
    if not slash or domain == NODE_ROLES:
        return
    if domain == OWN_DOMAIN or domain.endswith(f".{OWN_DOMAIN}"):
        expected = "a key outside of gpufleet.io, whose keys gpufleet writes itself"
        raise InputError("a key of gpufleet's own", field=field, value=key, expected=expected)
    if any(domain == one or domain.endswith(f".{one}") for one in KUBERNETES_DOMAINS):
        expected = f"a key of your own, or one of {NODE_ROLES}"
        raise InputError("a key of Kubernetes' own", field=field, value=key, expected=expected)
