"""The score of a node for a shape: the weighted sum of the policy's scoring functions.

For a share, policies that score by device give every device of the node its own score; the node
is worth its best device, and that device is then used. ``ranking`` keeps the scores of all nodes.
"""

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.compiled import kernel, leaf
from gpufleet.engine.arrays.request import is_whole
from gpufleet.engine.arrays.tables import Tables
from gpufleet.engine.place.score import fit, fragmentation, locality, policy_tables, published, worth
from gpufleet.engine.place.score.policy_tables import PolicyTables
from gpufleet.engine.valuation import ONE_GPU


@leaf
def scores_devices(tables: Tables, policy: PolicyTables, shape: int) -> bool:
    """True if this shape's score depends on the device inside the node."""
    by_score = policy.options[policy_tables.OPTION_SHARE_CHOICE] == policy_tables.SHARE_BY_SCORE
    shares = tables.shapes[layout.SHAPE_KIND, shape] == layout.KIND_SHARE
    return bool(by_score and shares)


@leaf
def node_score(tables: Tables, policy: PolicyTables, shape: int, node: int) -> int:
    """The part of the score that is the same for every device of the node."""
    weights = policy.weights
    score = 0
    # A function without weight is not worked out at all.
    if weights[policy_tables.WEIGHT_DOT_PRODUCT] != 0:
        weight = weights[policy_tables.WEIGHT_DOT_PRODUCT]
        score += weight * published.dot_product(tables, shape, node)
    if weights[policy_tables.WEIGHT_CLUSTERING] != 0:
        weight = weights[policy_tables.WEIGHT_CLUSTERING]
        score += weight * published.gpu_clustering(tables, shape, node)
    if weights[policy_tables.WEIGHT_PACKING] != 0:
        weight = weights[policy_tables.WEIGHT_PACKING]
        score += weight * published.gpu_packing(tables, shape, node)
    if weights[policy_tables.WEIGHT_BEST_FIT] != 0:
        weight = weights[policy_tables.WEIGHT_BEST_FIT]
        score += weight * published.best_fit(tables, shape, node)
    return int(score)


@leaf
def whole_score(tables: Tables, policy: PolicyTables, shape: int, node: int) -> int:
    """The part that looks at devices, where the score does not depend on which one is taken."""
    score = 0
    weight = policy.weights[policy_tables.WEIGHT_FRAGMENTATION]
    if weight != 0:
        gradient = fragmentation.whole_gradient(tables, policy, shape, node)
        score += weight * fragmentation.grade(policy, gradient)
    weight = policy.weights[policy_tables.WEIGHT_WORTH]
    if weight != 0:
        score += weight * worth.score(tables, policy.worth, shape, node)
    return int(score)


@kernel
def best_device(tables: Tables, policy: PolicyTables, shape: int, node: int) -> tuple[int, int]:
    """The best score of a fitting device for a share, and that device (lowest index of equals)."""
    first = tables.nodes[layout.NODE_FIRST_DEVICE, node]
    count = tables.nodes[layout.NODE_DEVICE_COUNT, node]
    weight = policy.weights[policy_tables.WEIGHT_FRAGMENTATION]
    # One scratch array: a gradient is read before its score takes its place.
    scores = policy.by_device
    if weight != 0:
        fragmentation.share_gradients(tables, policy, shape, node)
        for index in range(count):
            scores[index] = weight * fragmentation.grade(policy, scores[index])
    else:
        for index in range(count):
            scores[index] = 0
    best, chosen = layout.INFEASIBLE, layout.NOT_SET
    for index in range(count):
        if scores[index] > best and fit.share_fits(tables, shape, first + index):
            best = scores[index]
            chosen = first + index
    return best, chosen


@kernel
def score(tables: Tables, policy: PolicyTables, shape: int, node: int) -> int:
    """The score of placing one pod of the shape on the node, INFEASIBLE if it does not fit."""
    if not fit.fits(tables, shape, node):
        return layout.INFEASIBLE
    total = node_score(tables, policy, shape, node)
    if scores_devices(tables, policy, shape):
        best, _ = best_device(tables, policy, shape, node)
        return int(total + best)
    total += whole_score(tables, policy, shape, node)
    return int(total - apart_cost(tables, policy, shape, node))


@leaf
def apart_cost(tables: Tables, policy: PolicyTables, shape: int, node: int) -> int:
    """What it costs that several whole GPUs of this node would not be near each other.

    As much as the GPUs are worth where there is no fast link between them, half of it where they are on one
    NUMA node at least: work whose GPUs are apart waits for what it sends between them, but a whole machine
    that larger work needs is worth more.
    """
    count = tables.shapes[layout.SHAPE_GPU_COUNT, shape]
    by_link = policy.options[policy_tables.OPTION_WHOLE_CHOICE] == policy_tables.WHOLE_BY_LINK_GROUP
    if not by_link or count < 2 or not is_whole(tables, shape):
        return 0
    if fit.nearest(tables, shape, node, locality.LINK_GROUP) >= count:
        return 0
    if fit.nearest(tables, shape, node, locality.NUMA_NODE) >= count:
        return int(count * ONE_GPU // 2)
    return int(count * ONE_GPU)
