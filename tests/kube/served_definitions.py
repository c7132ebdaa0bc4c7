"""The OpenAPI document of a server with definitions of gpufleet's kinds, of this release or an older one."""

import copy
from typing import Any

from gpufleet.kube.manifests import definitions
from gpufleet.kube.transport import Response
from tests.kube.scripted_transport import answer


def served(*left_out: str, kind: str = "FleetQueue", without: tuple[str, ...] = ()) -> Response:
    """The answer of a server with this release's definitions, without these fields of a kind's spec.

    It has no definition of the kinds ``without``.
    """
    schemas: dict[str, Any] = {}
    for one in definitions():
        name = one["spec"]["names"]["kind"]
        if name in without:
            continue
        schema = copy.deepcopy(one["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
        if name == kind:
            for field in left_out:
                del schema["properties"]["spec"]["properties"][field]
        schemas[name] = {**schema, "x-kubernetes-group-version-kind": [{"kind": name}]}
    return answer({"components": {"schemas": schemas}})
