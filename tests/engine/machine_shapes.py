"""The needs of the pods of the state machine: of devices and nodes, and of other pods and volumes."""

from gpufleet.model.host_port import HostPort
from gpufleet.model.shape import Within
from gpufleet.model.taint import Toleration
from gpufleet.model.volumes import Attachment
from tests.engine.fleet_builder import shape, share
from tests.engine.relation_builder import (
    asking,
    claim,
    in_zone,
    on_node,
    preferred,
    prefers_zone,
    related,
    spread,
    term,
    volume,
)

SHAPES = (
    shape(),
    shape(cpu_milli=3000),
    share(300),
    share(500),
    shape(1, milli=0, memory_mib=30_000),
    share(200, memory_mib=20_000),
    shape(1),
    shape(2),
    shape(1, models=("T4",)),
    shape(1, in_order=("T4", "A100")),
    shape(1, tolerations=(Toleration("gpu", "Exists"),)),
    shape(1, milli=500, selector=(("rack", "a"),)),
    shape(2, milli=400),
    shape(2, within=Within.LINK_GROUP),
    shape(other=(("example.com/nic", 1),)),
)
BOTH = (term("a"), term("a", "b", key="rack"))
SHARED_CLAIM = claim("c1", volume("p1", on_node("n0")), volume("p2"))
NAMED = related("a", affinity=(term("a"),))
RELATED_SHAPES = (
    asking(ports=(HostPort(80),)),
    asking(ports=(HostPort(80, address="10.0.0.1"), HostPort(53, "UDP"))),
    asking("a", affinity=(term("a"),)),
    asking("a", affinity=(term("b", key="host"),)),
    asking("a", gpus=1, affinity=BOTH),
    asking("b", affinity=(term("a", namespace_labels={"team": "x"}, namespaces=()),)),
    asking("a", anti_affinity=(term("a", key="host"),)),
    asking("b", gpus=1, anti_affinity=(term("a", namespace_labels={"team": "x"}),)),
    asking("b", anti_affinity=(term("b", namespaces=("", "other")), term("a", key="rack"))),
    asking("a", spread=(spread("a"),)),
    asking("a", spread=(spread("a", "b", key="host", max_skew=2), spread("b"))),
    asking("b", spread=(spread("b", min_domains=3, honor_taints=True, honor_affinity=False),)),
    asking("b", spread=(spread("a", required=False),), preferred=(preferred(-5, term("a")),)),
    shape(affinity=prefers_zone("x"), features=("fast",)),
    asking(attachments=(Attachment("disk", "v1"), Attachment("disk", "v2"))),
    asking(attachments=(Attachment("disk", "v2"), Attachment("net", "v3"))),
    asking(exclusive=("only",)),
    asking(unbound=(SHARED_CLAIM,)),
    asking(unbound=(SHARED_CLAIM, claim("c2", volume("p1"), volume("p2")))),
    asking(
        unbound=(
            claim("c3", volume("p1"), provision=(in_zone("x"),)),
            claim("c4", volume("p3", in_zone("y")), volume("p1"), provision=()),
        )
    ),
    shape(volume_affinities=(in_zone("x"),), relations=NAMED),
)
ALL_SHAPES = (*SHAPES, *RELATED_SHAPES, *RELATED_SHAPES)
