"""A client of KEDA's protocol that knows nothing of gpufleet: it is made from the file that KEDA publishes.

    python -m tests.metrics.keda.client FOLDER ADDRESS TRIGGER...

makes KEDA's messages and calls in FOLDER from ``externalscaler.proto``, asks the server at ADDRESS, with each
TRIGGER as key=value, what KEDA asks, and prints the answers as JSON. It is a process of its own: messages of
one name cannot be made twice in one.
"""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import grpc
from grpc_tools import protoc

PROTOCOL = Path(__file__).with_name("externalscaler.proto")
"""That of KEDA 2.21.0, as its Go module has it."""

ANSWER_S = 20.0
"""A server on this machine answers within milliseconds, or on a busy one later."""


def main(folder: str, address: str, *trigger: str) -> None:
    """Ask everything once."""
    made = [f"-I{PROTOCOL.parent}", f"--python_out={folder}", f"--grpc_python_out={folder}", str(PROTOCOL)]
    if protoc.main(["protoc", *made]) != 0:
        raise SystemExit("the protocol cannot be read")
    sys.path.insert(0, folder)
    messages = importlib.import_module("externalscaler_pb2")
    calls = importlib.import_module("externalscaler_pb2_grpc")
    said = dict(one.split("=", 1) for one in trigger)
    scaled = messages.ScaledObjectRef(name="llama", namespace="default", scalerMetadata=said)
    with grpc.insecure_channel(address) as channel:
        stub = calls.ExternalScalerStub(channel)
        asked = messages.GetMetricsRequest(scaledObjectRef=scaled, metricName="s0-queue")
        (spec,) = stub.GetMetricSpec(scaled, timeout=ANSWER_S).metricSpecs
        (value,) = stub.GetMetrics(asked, timeout=ANSWER_S).metricValues
        found = {
            "active": stub.IsActive(scaled, timeout=ANSWER_S).result,
            "stream": next(stub.StreamIsActive(scaled, timeout=ANSWER_S)).result,
            "spec": [spec.metricName, spec.targetSize, spec.targetSizeFloat],
            "value": [value.metricName, value.metricValue, value.metricValueFloat],
            "pushed spec": _problem(stub.StreamMetricSpec, scaled),
            "unknown": _problem(
                stub.IsActive,
                messages.ScaledObjectRef(
                    name="llama", namespace="default", scalerMetadata={**said, "metric": "nobody-has-it"}
                ),
            ),
        }
    sys.stdout.write(json.dumps(found))


def _problem(call: Any, asked: Any) -> str:
    """The code of the error that a call ends with; "" where it does not."""
    try:
        told = call(asked, timeout=ANSWER_S)
        for _ in told if hasattr(told, "__iter__") else ():
            pass
    except grpc.RpcError as error:
        code: grpc.StatusCode = error.code()
        return code.name
    return ""


if __name__ == "__main__":
    main(*sys.argv[1:])
