"""How evenly pods of one kind must be spread over the domains of a topology key.

The rule is that of Kubernetes' topology spread constraints: placing the pod must not leave its
domain with more than ``max_skew`` selected pods above the emptiest eligible domain.
"""

import msgspec

from gpufleet.model.labels import LabelSelector
from gpufleet.model.model_errors import InputError


class SpreadConstraint(msgspec.Struct, frozen=True, cache_hash=True):
    """One constraint. ``required`` is DoNotSchedule; otherwise it only makes nodes better or worse.

    With fewer than ``min_domains`` eligible domains the emptiest counts as holding none.
    ``honor_affinity`` and ``honor_taints`` say whether nodes that the pod's own selector, affinity
    or tolerations rule out are left out of the count. ``selector`` None selects no pod; an empty one
    selects only the pod itself.
    """

    max_skew: int
    topology_key: str
    selector: LabelSelector | None = None
    required: bool = True
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False

    def __post_init__(self) -> None:
        if self.max_skew < 1:
            raise InputError("no skew allowed", field="maxSkew", value=self.max_skew, expected="1 or more")
        if self.min_domains < 1:
            problem = "fewer domains than one"
            raise InputError(problem, field="minDomains", value=self.min_domains, expected="1 or more")
        if not self.topology_key:
            raise InputError("no topology key", field="topologyKey", expected="the name of a node label")
