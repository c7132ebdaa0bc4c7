"""Which jobs of a batch system run on which GPU, as its prolog writes it.

A folder has a file for each GPU ("0") and each MIG instance ("0.7": GPU 0, GPU instance 7), with the
number of a job on each line. The batch system owns the folder: what is no such file is passed over, links are
not followed, and only a bounded part of it is read.
"""

import os
import re
from contextlib import suppress
from pathlib import Path

JOBS_MAX = 32
"""Of one GPU; each has series of its own."""

# Of one file: room for JOBS_MAX numbers of jobs.
BYTES_MAX = 4096
# More than GPUs and MIG instances of any node.
FILES_MAX = 1024
# Longer than any number of a job, and short enough for a label.
JOB_LENGTH_MAX = 128
_FILE_NAME = re.compile(r"\d{1,4}(\.\d{1,4})?")

Jobs = dict[str, tuple[str, ...]]
"""Jobs by the name of the file."""


def read_jobs(folder: Path) -> Jobs:
    """The jobs that the folder tells of; none where it is not there."""
    found: Jobs = {}
    with suppress(OSError), os.scandir(folder) as entries:
        names = (entry.name for entry in entries if _FILE_NAME.fullmatch(entry.name))
        for name, _ in zip(names, range(FILES_MAX), strict=False):
            jobs = _jobs(folder / name)
            if jobs:
                found[name] = jobs
    return found


def _jobs(file: Path) -> tuple[str, ...]:
    """The jobs of one file, each once."""
    try:
        # Neither a link nor a pipe, which would never end, is opened to its end.
        opened = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ()
    try:
        text = os.read(opened, BYTES_MAX).decode("utf-8", "replace")
    except OSError:
        return ()
    finally:
        os.close(opened)
    lines = (line.strip() for line in text.splitlines())
    jobs = [line for line in lines if line and len(line) <= JOB_LENGTH_MAX and line.isprintable()]
    return tuple(dict.fromkeys(jobs))[:JOBS_MAX]
