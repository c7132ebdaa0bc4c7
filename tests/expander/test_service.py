"""The expander over a real channel with TLS, as Cluster Autoscaler asks it."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from gpufleet.cluster.settings import Settings
from gpufleet.expander.answering import Answered, Answering
from gpufleet.expander.decisions import Decision
from gpufleet.expander.expander_record import ExpanderRecord
from gpufleet.expander.judgement import Seen
from gpufleet.expander.process import credentials_of
from gpufleet.expander.protocol import expander_pb2 as api
from gpufleet.expander.protocol.question import Option
from gpufleet.expander.service import ExpanderService
from gpufleet.kube.objects.pod import Pod
from gpufleet.localkube.access.certificates import Authority
from gpufleet.model.model_errors import WorldError
from gpufleet.plan.instance_types import Catalogue
from tests.at_work import at_work
from tests.cluster.snapshots.small_snapshots import AT, Fleet
from tests.expander.autoscaler_client import best_options, question
from tests.expander.offers import CATALOGUE, gang, option


class GatedAnswering(Answering):
    """Answers when its gate is open."""

    def __init__(self, catalogue: Catalogue) -> None:
        super().__init__(catalogue)
        self.gate = threading.Event()
        self.gate.set()

    def answer(self, seen: Seen, options: Sequence[Option], ends_at_s: float) -> Answered:
        """The answer, once the gate is open."""
        assert self.gate.wait(60)
        return super().answer(seen, options, ends_at_s)


class Served:
    """An expander over a fleet; ``ask`` is the autoscaler's question."""

    def __init__(self, fleet: Fleet, folder: Path) -> None:
        self.fleet = fleet
        self.folder = folder
        self.authority = Authority.new("expander")
        self.record = ExpanderRecord()
        self.is_away = False
        self.decided: list[tuple[Pod, Decision]] = []
        self.answering = GatedAnswering(CATALOGUE)
        self.renew()
        self.service = ExpanderService(
            self._look,
            self.answering,
            self.record,
            "127.0.0.1:0",
            credentials_of(folder / "tls.crt", folder / "tls.key"),
            lambda answered: self.decided.extend(answered.decisions),
        )

    def renew(self) -> None:
        """Another certificate, of the authority that is known."""
        identity = self.authority.server(["localhost"], ["127.0.0.1"])
        (self.folder / "tls.key").write_bytes(identity.key)
        (self.folder / "tls.crt").write_bytes(identity.certificate)

    async def _look(self) -> Seen:
        if self.is_away:
            raise WorldError("the API server cannot be read")
        return Seen(self.fleet.picture, Settings(identity="test"), AT)

    async def ask(self, asked: api.BestOptionsRequest, timeout_s: float = 60.0) -> list[str]:
        """The groups that the autoscaler goes on with."""
        return await best_options(
            f"localhost:{self.service.listener.port}", self.authority.identity.certificate, asked, timeout_s
        )

    def count(self, outcome: str) -> float:
        """How often this came of a question."""
        name = "gpufleet_expander_questions_total"
        return self.record.registry.get_sample_value(name, {"outcome": outcome}) or 0.0


def serving(fleet: Fleet, folder: Path, story: Callable[[Served], Awaitable[None]]) -> None:
    """An expander, and what happens with it."""

    async def run() -> None:
        served = Served(fleet, folder)
        async with at_work(served.service.run()), asyncio.timeout(120):
            await served.service.listener.listening.wait()
            await story(served)

    asyncio.run(run())


@pytest.mark.parametrize("packed", [False, True], ids=["messages", "bytes"])
def test_the_group_that_starts_the_gang_is_chosen_and_half_of_it_is_vetoed(
    tmp_path: Path, packed: bool
) -> None:
    fleet = Fleet()
    fleet.node("gpu-1")
    names = gang(fleet, "train", 2)
    whole, half = option("whole", 2, *names), option("half", 1, names[0])

    async def story(served: Served) -> None:
        assert await served.ask(question([half], packed=packed)) == []
        assert await served.ask(question([half, whole], packed=packed)) == ["whole"]
        assert (served.count("vetoed"), served.count("chosen"), served.count("failed")) == (1, 1, 0)

    serving(fleet, tmp_path, story)


def test_what_cannot_be_judged_is_left_to_the_autoscaler(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.node("gpu-1")
    asked = question([option("a", 1, "waits")], packed=True)
    without_node = question([option("a", 1, "waits")], packed=True)
    del without_node.node_bytes_map["a"]
    no_pod = question([option("a", 1, "waits")], packed=True)
    no_pod.options[0].pod_bytes[0] = b"\xff\xff"

    async def story(served: Served) -> None:
        assert await served.ask(without_node) == ["a"]
        assert await served.ask(no_pod) == ["a"]
        served.is_away = True
        assert await served.ask(asked) == ["a"]
        assert served.count("failed") == 3

    serving(fleet, tmp_path, story)


def test_an_answer_that_comes_too_late_is_not_remembered(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.node("gpu-1")
    names = gang(fleet, "train", 2)
    first, second = option("a", 1, names[0]), option("b", 1, names[1])

    async def story(served: Served) -> None:
        served.answering.gate.clear()
        assert await served.ask(question([first, second], packed=True), timeout_s=0.5) == ["a", "b"]
        served.answering.gate.set()
        # Were a node of a on its way, b would complete the gang.
        assert await served.ask(question([second], packed=True)) == []
        assert served.count("chosen") == 0

    serving(fleet, tmp_path, story)


def test_a_question_may_have_more_bytes_than_a_message_of_grpc_has_by_default(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.node("gpu-1")
    asked = question([option("a", 1, "waits")], packed=True)
    asked.options[0].debug = "x" * (5 << 20)

    async def story(served: Served) -> None:
        assert await served.ask(asked) == []

    serving(fleet, tmp_path, story)


def test_names_of_similar_groups_in_the_place_of_packed_pods_are_no_pods(tmp_path: Path) -> None:
    """A line of versions had them in that field, beside the pods as messages."""
    fleet = Fleet()
    fleet.node("gpu-1")
    names = gang(fleet, "train", 1)
    asked = question([option("a", 1, *names)], packed=False)
    asked.options[0].pod_bytes.append(b"my-similar-asg.t2.micro")

    async def story(served: Served) -> None:
        assert await served.ask(asked) == ["a"]
        assert served.count("chosen") == 1

    serving(fleet, tmp_path, story)


def test_a_renewed_certificate_is_shown_at_the_next_handshake(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.node("gpu-1")
    asked = question([option("a", 1, "waits")], packed=True)

    async def story(served: Served) -> None:
        assert await served.ask(asked) == []
        served.authority = Authority.new("another")
        assert await served.ask(asked) == ["a"]
        served.renew()
        assert await served.ask(asked) == []

    serving(fleet, tmp_path, story)
