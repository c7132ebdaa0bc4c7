"""A simulation of ``nvidia-cuda-mps-control`` for tests: it has no GPU and serves nobody.

With ``-d`` it leaves a mark of a running daemon in its folder of pipes, without arguments it takes commands
on its standard input as the real one does, and writes all that it is told to a file beside the pipes. A file
"refuses" in the folder of logs makes it fail to start.
"""

import os
import sys
from pathlib import Path


def main() -> int:
    pipes, logs = Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"]), Path(os.environ["CUDA_MPS_LOG_DIRECTORY"])
    running = pipes / "control"
    if sys.argv[1:] == ["-d"]:
        if (logs / "refuses").exists():
            sys.stderr.write("Cannot find MPS control daemon process\n")
            return 1
        running.write_text(os.environ["CUDA_VISIBLE_DEVICES"], encoding="utf-8")
        tell(logs, f"started with {' '.join(sorted(os.environ))}")
        return 0
    if not running.exists():
        sys.stderr.write("Cannot find MPS control daemon process\n")
        return 1
    for line in sys.stdin:
        command = line.strip()
        if command.startswith("get_"):
            sys.stdout.write("25.0\n")
            continue
        tell(logs, command)
        if command == "quit":
            running.unlink()
    return 0


def tell(logs: Path, words: str) -> None:
    with (logs / "told").open("a", encoding="utf-8") as file:
        file.write(f"{words}\n")


if __name__ == "__main__":
    sys.exit(main())
