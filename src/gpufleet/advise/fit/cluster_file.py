"""A cluster from a file: of ``gpufleet snapshot``, or what ``kubectl get nodes,pods,nodedevices -A -o
yaml`` prints.
"""

from pathlib import Path
from typing import Any

import msgspec

from gpufleet.advise.lint.inputs import Inputs
from gpufleet.advise.lint.snapshot_file import PACKED_MAX_BYTES, is_snapshot, snapshot_objects
from gpufleet.files.regular import read_regular
from gpufleet.fit.cluster import FoundGpus
from gpufleet.kube.objects.node import Node
from gpufleet.kube.objects.node_devices import NodeDevices
from gpufleet.kube.objects.pod import Pod
from gpufleet.lint.run import read
from gpufleet.lint.source.nodes import data_of
from gpufleet.model.model_errors import InputError, printable

EXPECTED = "a file of `gpufleet snapshot`, or of kubectl get nodes,pods,nodedevices -A -o yaml"


def read_cluster_file(path: Path) -> FoundGpus:
    """The nodes, pods and reports of agents in this file. Raises InputError for what is malformed."""
    name = printable(str(path))
    try:
        data = read_regular(path, PACKED_MAX_BYTES, field="--cluster", expected=EXPECTED)
    except OSError as error:
        raise InputError(
            error.strerror or str(error), field="--cluster", value=name, expected=EXPECTED
        ) from error
    objects = snapshot_objects(data, name)[0] if is_snapshot(data) else _documents(data, name)
    try:
        nodes = [msgspec.convert(one, Node) for one in objects if one.get("kind") == "Node"]
        pods = [msgspec.convert(one, Pod) for one in objects if one.get("kind") == "Pod"]
        reports = [msgspec.convert(one, NodeDevices) for one in objects if one.get("kind") == "NodeDevices"]
    except msgspec.ValidationError as error:
        raise InputError(str(error), where=name, expected=EXPECTED) from error
    if not nodes:
        raise InputError("the file has no nodes", where=name, expected=EXPECTED)
    return FoundGpus(nodes, pods, {report.metadata.name: report for report in reports})


def _documents(data: bytes, name: str) -> list[dict[str, Any]]:
    inputs = Inputs()
    inputs.add(name, data)
    readings = [read(source) for source in inputs.sources]
    problems = [*inputs.problems, *(problem for one in readings for problem in one.problems)]
    if problems:
        raise InputError(problems[0].reason, where=problems[0].place, expected=EXPECTED)
    found = [data_of(one.root.node) for reading in readings for one in reading.manifests if one.root.node]
    return [one for one in found if isinstance(one, dict)]
