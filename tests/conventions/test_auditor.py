"""The auditor has its own reading of everything: it imports nothing of ours, and nothing but the library."""

import subprocess
import sys

from tests.conventions.project import ROOT


def test_it_loads_nothing_else_of_ours_and_nothing_that_is_not_pythons_own() -> None:
    code = (
        "import sys; import gpufleet.auditor.audit; import gpufleet.auditor.__main__;"
        "print([one for one in sys.modules if one.split('.')[0] == 'gpufleet'"
        " and one not in ('gpufleet',) and not one.startswith('gpufleet.auditor')"
        " or one.split('.')[0] in ('msgspec', 'numpy', 'numba', 'yaml', 'click')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_source_of_it_imports_anything_else_of_ours() -> None:
    for path in sorted((ROOT / "src" / "gpufleet" / "auditor").glob("*.py")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith(("import ", "from ")) and "gpufleet" in line:
                assert "gpufleet.auditor" in line, f"{path.name}: {line}"
