"""A disk that takes nothing any more costs new claims, and none that is prepared."""

import errno
from pathlib import Path

import pytest

from gpufleet.agent.dra.claim_preparer import ClaimName
from gpufleet.agent.dra.prepared_claims import Stage
from gpufleet.agent.state.state_errors import RefusedError
from tests.agent.mig.cut_for_claims import CutNode
from tests.mig.mig_cards import at

SMALL, LARGE = "gpu-0-mig-2g20gb-14-2", "gpu-0-mig-3g40gb-9-4"


def was_prepared(node: CutNode, claim: ClaimName) -> bool:
    """Whether it was, and not refused."""
    try:
        node.prepare(claim)
    except RefusedError:
        return False
    return True


@pytest.mark.parametrize("problem", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_fault_39_a_disk_that_takes_nothing_costs_new_claims_alone(tmp_path: Path, problem: int) -> None:
    """From each of its operations on: it is full, read-only, or what was written does not come to it."""
    for step in range(1, 9):
        node = CutNode(tmp_path / str(step))
        large = node.allocated("large", LARGE)
        node.prepare(large)
        nodes = node.nodes_of(large)
        small = node.allocated("small", SMALL)
        node.disk.fails_from(step, problem)
        if was_prepared(node, small):
            assert step > 4, "the record, its stage and the file are written"
            assert not node.disk.failed
            return
        assert node.nodes_of(large) == nodes
        if "small" not in node.stages:
            assert node.layout() == at("3g.40gb@4"), "nothing is cut for a claim that is not remembered"
        # The process ends too, and the next one finds the disk well.
        node.disk.fails_from(0, problem)
        node.restarted()
        assert node.stages["large"] is Stage.READY
        node.prepare(small)
        assert node.layout() == at("2g.20gb@2", "3g.40gb@4")
        assert node.nodes_of(large) == nodes
    pytest.fail("the disk was asked more often than there are steps")
