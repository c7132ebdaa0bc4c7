"""A share is given of what no other container has: no share of a pod that went, and no whole card."""

from pathlib import Path

import pytest

from gpufleet.agent.holders.holder_memory import SeenHolder
from gpufleet.agent.holders.vanished_pods import MARGIN_S
from gpufleet.agent.state.node_state import GRACE_S
from gpufleet.agent.state.state_errors import RefusedError
from tests.agent.node_values import a_pod, a_share, held
from tests.agent.share_world import SharedNode
from tests.agent.test_share_allocator import LARGE, SMALL, told


def test_a_share_of_a_pod_that_was_deleted_by_force_is_its_own_until_its_containers_must_have_ended(
    tmp_path: Path,
) -> None:
    async def story(node: SharedNode) -> None:
        uid = node.bind("a", main=(SMALL,))
        await node.admit(uid)
        await node.start(uid)
        node.joined()
        del node.api[uid]
        node.allocations.clear()
        node.sync()
        await node.allocator.sweep()
        rival = node.bind("b", main=(a_share("GPU-0", 900),))
        await node.admit(rival)
        with pytest.raises(RefusedError, match="is given to team/a"):
            await node.prepare(rival)
        node.now_s = GRACE_S + MARGIN_S
        assert (await node.start(rival))["GPUFLEET_GPU_MILLI"] == "900"

    told(tmp_path, story)


@pytest.mark.parametrize("unit", ["GPU-0", "GPU-0::1"])
@pytest.mark.parametrize("lives", [True, False])
def test_no_share_is_given_of_a_card_that_another_pod_holds_whole(
    tmp_path: Path, unit: str, lives: bool
) -> None:
    async def story(node: SharedNode) -> None:
        whole = a_pod("whole", running=frozenset({"main"}), started=frozenset({"main"}))
        node.add(whole)
        node.memory.joined((held("whole", "nvidia.com/gpu", unit),), SeenHolder(node.gpus.value, node.api))
        if not lives:
            del node.api[whole.uid]
        uid = node.bind("a", main=(SMALL,))
        beside = node.bind("b", main=(LARGE,))
        node.sync()
        await node.admit(uid)
        with pytest.raises(RefusedError, match=r"held by container main of team/whole as nvidia\.com/gpu"):
            await node.prepare(uid)
        await node.admit(beside)
        await node.start(beside)
        node.ended.add(whole.uid)
        node.api.pop(whole.uid, None)
        assert (await node.start(uid))["GPUFLEET_GPU_MILLI"] == "250"

    told(tmp_path, story)
