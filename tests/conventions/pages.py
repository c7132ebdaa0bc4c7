"""The commands of a page: what a reader types, and what the page says it prints."""

import re
from pathlib import Path


def steps(page: Path) -> list[tuple[str, list[str]]]:
    """Each command of a page's console blocks, and the lines that it has to print.

    The prompt of a block is that of its first line: "$ " or, for root, "# ".
    """
    found: list[tuple[str, list[str]]] = []
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"^ *```console\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE):
        prompt = block[:2]
        for line in block.splitlines():
            if line.startswith(prompt):
                found.append((line.removeprefix(prompt), []))
            else:
                found[-1][1].append(line)
    return found
