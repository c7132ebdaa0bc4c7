"""Rules about the container runtime: a configuration that is lost takes every GPU of a node with it."""

from collections.abc import Iterator

from gpufleet.preflight.facts import TOOLKIT_IMAGE_ANNOTATION, Case, RuntimeConfig
from gpufleet.preflight.finding import FindingSeverity, PreflightFinding

NVIDIA_RUNTIME, PLAIN_RUNTIME = "nvidia", "runc"
RESTARTS_MAX = 3
"""A toolkit restarts the runtime once when it is installed; more in one boot is a loop."""


def judge(case: Case) -> Iterator[PreflightFinding]:
    """What is wrong with the runtime's configuration."""
    runtime = case.host.runtime
    # The finding facts-unknown says so.
    if runtime is None:
        return
    yield from _configuration(case, runtime)
    if runtime.programs is not None and len(runtime.programs) > 1:
        yield PreflightFinding(
            "several-runtimes",
            FindingSeverity.BLOCKS,
            f"several programs of the runtime are on the host: {', '.join(runtime.programs)}",
            "leave one: the toolkit may configure the other, which no kubelet uses",
        )
    if runtime.restarts is not None and runtime.restarts > RESTARTS_MAX:
        yield PreflightFinding(
            "runtime-restarted",
            FindingSeverity.BLOCKS,
            f"the runtime was restarted {runtime.restarts} times since the node booted",
            "find out what restarts it: each restart may end a driver's pod while it loads",
        )
    # Empty is a runtime that is known to have no proxy; None is not known.
    if case.host.proxy and runtime.proxy == "":
        yield PreflightFinding(
            "proxy-not-passed",
            FindingSeverity.WARNS,
            f"the host reaches the network through {case.host.proxy}, and the runtime does not know it",
            "give the runtime's service the same proxy, or no image is fetched",
        )


def _configuration(case: Case, runtime: RuntimeConfig) -> Iterator[PreflightFinding]:
    drop_in = runtime.drop_in_runtimes
    # The table of a drop-in file replaces that of the main file; it adds nothing to it.
    if drop_in and PLAIN_RUNTIME not in drop_in:
        yield PreflightFinding(
            "drop-in-without-runc",
            FindingSeverity.BLOCKS,
            f"a drop-in file names {', '.join(drop_in)} alone and so takes {PLAIN_RUNTIME} away",
            f"name {PLAIN_RUNTIME} in the drop-in file too",
        )
    # A node on which no toolkit ever was needs no handler of it.
    toolkit = case.node.annotations.get(TOOLKIT_IMAGE_ANNOTATION) or any(
        name.startswith("nvidia.com/gpu.deploy.container-toolkit") for name in case.node.labels
    )
    if toolkit and runtime.runtimes is not None and NVIDIA_RUNTIME not in runtime.runtimes:
        yield PreflightFinding(
            "runtime-config-lost",
            FindingSeverity.BLOCKS,
            f"a toolkit is on the node, and the runtime has no handler {NVIDIA_RUNTIME}",
            "the configuration was lost, as at a reboot: let the toolkit write it again, or use CDI",
        )
