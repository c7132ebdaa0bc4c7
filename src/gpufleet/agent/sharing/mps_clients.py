"""What makes a container a client of its GPU's MPS daemon, as an addition to what ``plugin.delivery`` gives.

A container is not started while the daemon is away: its programs would run without limits.
"""

from collections.abc import Sequence

from gpufleet.agent.errors import RefusedError
from gpufleet.agent.known import Gpu
from gpufleet.agent.plugin.delivery import Addition
from gpufleet.agent.plugin.offer import Given, HostMount
from gpufleet.agent.sharing.mps import MpsDaemons
from gpufleet.devices.sharing.plan import Mps


def mps_clients(daemons: MpsDaemons) -> Addition:
    """The addition for units of some GPUs. It raises RefusedError where there is no daemon to go through."""

    def addition(gpus: Sequence[Gpu]) -> Given:
        shared = [gpu.uuid for gpu in gpus if isinstance(gpu.plan.mode, Mps)]
        if not shared:
            return Given()
        if len(shared) > 1:
            raise RefusedError(
                f"a container can be a client of MPS on one GPU only, and these are on {' and '.join(shared)}"
            )
        if shared[0] not in daemons.ready.value:
            raise RefusedError(f"the MPS daemon of {shared[0]} does not run yet")
        access = daemons.access(shared[0])
        mounts = tuple(
            HostMount(mount.container_path, mount.host_path, read_only=False) for mount in access.mounts
        )
        return Given(environment=access.environment, mounts=mounts)

    return addition
