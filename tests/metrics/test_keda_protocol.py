"""KEDA's own protocol, spoken by a client that is made from the file that KEDA publishes."""

import asyncio
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from gpufleet.metrics.external_scaler.scaler import ExternalScaler
from gpufleet.metrics.reading import Reading
from gpufleet.metrics.served_values import FoundValues
from tests.at_work import at_work
from tests.conventions.project import ROOT
from tests.metrics.values_at_hand import NOW_S, Objects, Values, metric, served

FOLDER = Path(__file__).with_name("keda")
FILES = {
    "externalscaler.proto": "0e1c84a7ee1d4745eefe1fd7d16e2cbbd02763dc0cfc4c4c37d92d026deb9253",
    "externalscaler.licence.txt": "56531aa6d5a0ae8aae14b050f6aafe55a068b97c1f57728b547e55bcc0e29036",
}
"""As they are in KEDA 2.21.0."""
QUEUE = "queue_length"


def answers(folder: Path, *amounts: float) -> dict[str, Any]:
    """What KEDA's client is told while these amounts wait."""
    series = tuple(Reading(amount, NOW_S, {"pool": str(number)}) for number, amount in enumerate(amounts))

    async def run() -> bytes:
        values = Values(external={QUEUE: FoundValues(series)})
        scaler = ExternalScaler(served(Objects({}), values, metric(QUEUE, external=True)), "127.0.0.1:0")
        async with at_work(scaler.run()), asyncio.timeout(60):
            await scaler.listener.listening.wait()
            words = (
                str(folder),
                f"127.0.0.1:{scaler.listener.port}",
                f"metric={QUEUE}",
                "target=2.5",
                "activation=3",
            )
            command = (sys.executable, "-m", "tests.metrics.keda.client", *words)
            client = await asyncio.create_subprocess_exec(
                *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
            )
            told, problem = await client.communicate()
            assert client.returncode == 0, problem.decode()
            return told

    found: dict[str, Any] = json.loads(asyncio.run(run()))
    return found


@pytest.mark.parametrize(("amounts", "total", "active"), [((4.0, 7.5), 11.5, True), ((1.0, 2.0), 3.0, False)])
def test_kedas_client_is_told_what_there_is(
    tmp_path: Path, amounts: tuple[float, ...], total: float, active: bool
) -> None:
    whole = {11.5: 12, 3.0: 3}[total]
    assert answers(tmp_path, *amounts) == {
        "active": active,
        "stream": active,
        "spec": [QUEUE, 3, 2.5],
        "value": ["s0-queue", whole, total],
        # KEDA asks for the target itself then.
        "pushed spec": "UNIMPLEMENTED",
        "unknown": "UNAVAILABLE",
    }


@pytest.mark.parametrize("name", FILES)
def test_the_protocol_is_that_of_keda(name: str) -> None:
    assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == FILES[name]
