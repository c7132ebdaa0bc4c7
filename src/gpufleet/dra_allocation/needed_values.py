"""Which single devices claims name, by the text of their selectors.

A node without a device of such a name need not be asked for devices. Only requests for a number of devices of
one choice need it: another choice may do without it.
"""

from collections.abc import Iterable, Iterator, Mapping

from gpufleet.device_selectors.cel_errors import ExpressionError
from gpufleet.device_selectors.reads import NeededValue
from gpufleet.device_selectors.selector import DEFAULT_FEATURES, Features, selector
from gpufleet.dra_allocation.claims import DeviceClass, ResourceClaim
from gpufleet.dra_allocation.likeness import NAMES_OF_ONE_DEVICE


def needed_values(
    claims: Iterable[ResourceClaim],
    classes: Mapping[str, DeviceClass],
    features: Features = DEFAULT_FEATURES,
) -> Iterator[NeededValue]:
    """Names that devices of a node have if it serves all these claims, each on one device at least.

    Values that many nodes have, such as a type, are left out: they would rule out few nodes.
    """
    for request in (request for claim in claims for request in claim.requests):
        if len(request.choices) > 1 or request.choices[0].count is None:
            continue
        choice = request.choices[0]
        of_class = classes.get(choice.class_name)
        for expression in choice.selectors if of_class is None else (*of_class.selectors, *choice.selectors):
            try:
                needs = selector(expression, features).needs
            except ExpressionError:
                # The allocator says so of each node.
                continue
            yield from (one for one in needs if one.name in NAMES_OF_ONE_DEVICE)
