"""A stand-in for NVIDIA's container runtime: a wrapper around runc that listens to an environment variable.

As the real one does it looks at ``NVIDIA_VISIBLE_DEVICES`` in the process that a container is to run, adds
the devices that it names ("all" or indices, "void" for none) and goes on as runc. It serves every container
of the node, as where NVIDIA's runtime is the default, and so also those with ``runtimeClassName: nvidia``.
"""

import sys
from pathlib import Path

GPUS = 4
_PROGRAM = """#!{python} -IS
import json, os, sys
arguments = sys.argv[1:]
if "create" in arguments:
    path = arguments[arguments.index("--bundle") + 1] + "/config.json"
    with open(path) as file:
        spec = json.load(file)
    values = [one.partition("=") for one in spec["process"].get("env") or []]
    wanted = [value for name, _, value in values if name == "NVIDIA_VISIBLE_DEVICES"]
    if wanted and wanted[-1] not in ("", "none", "void"):
        names = range({gpus}) if wanted[-1] == "all" else wanted[-1].split(",")
        for name in names:
            node = {{"path": f"/dev/nvidia{{name}}", "type": "c", "major": 1, "minor": 3, "fileMode": 438}}
            spec["linux"].setdefault("devices", []).append(node)
        with open(path, "w") as file:
            json.dump(spec, file)
os.execv({runc!r}, [{runc!r}, *arguments])
"""


def write_runtime(path: Path, runc: Path) -> Path:
    """Write the program; it calls this runc."""
    text = _PROGRAM.format(python=sys.executable, gpus=GPUS, runc=str(runc))
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path
