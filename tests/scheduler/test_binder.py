"""Binds on the simulated API server, in virtual time: bound once, or told why not."""

from collections.abc import Awaitable, Callable
from random import Random

import msgspec
import pytest

from gpufleet.cluster.claims.claim_tracker import ClaimTracker
from gpufleet.cluster.settings import LEASE_NAME, LEASE_NAMESPACE
from gpufleet.cluster.watching.picture import Picture
from gpufleet.kube import keys
from gpufleet.kube.client import Client
from gpufleet.kube.codec.grant import write_grant
from gpufleet.kube.fencing import FENCED
from gpufleet.kube.lease import LeadershipLost
from gpufleet.kube.transport import Request
from gpufleet.model.grant import Grant
from gpufleet.model.identifiers import NodeName, PodUid
from gpufleet.model.pod_name import PodName
from gpufleet.scheduler.bind_outcome import Outcome
from gpufleet.scheduler.binder import GIVE_UP_S, Binder, BindResult, BindTask
from gpufleet.scheduler.claim_binder import ClaimBinder
from gpufleet.scheduler.claim_writer import ClaimWriter
from gpufleet.scheduler.metrics import Metrics
from gpufleet.scheduler.volume_binder import VolumeBinder
from gpufleet.simulation.admission_policies import SCHEDULER_USER
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.network import SimulatedTransport
from gpufleet.simulation.virtual_loop import VirtualClock, VirtualLoop, run
from tests.at_work import at_work
from tests.simulation.spoilt_way import Lost, Spoilt, SpoiltWay, refused, too_many

POD = "/api/v1/namespaces/default/pods/p"
ADMIN = "system:masters"
OURS = NodeName("a")
OTHERS = NodeName("b")
EPOCH = 3


class Case:
    """One waiting pod, a binder, and what it tells."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.clock = VirtualClock(loop)
        self.server = ApiServer(self.clock, Random(1))
        self.server.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LEASE_NAMESPACE}})
        self.server.add(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": LEASE_NAME, "namespace": LEASE_NAMESPACE},
                "spec": {"leaseTransitions": EPOCH},
            }
        )
        self.results: list[BindResult] = []
        self.leads = True
        inner = SimulatedTransport(self.server, SCHEDULER_USER, Random(2))
        self.way = SpoiltWay(inner, self.clock, "/binding")
        client = Client(self.way, self.clock, Random(3))
        volumes = VolumeBinder(client, lambda _namespace, _name: None)
        writer = ClaimWriter(client, lambda _namespace, _name: None, may_write=lambda: self.leads)
        claims = ClaimBinder(writer, ClaimTracker(Picture()), self.clock, share_id=str, at_once=2)
        self.binder = Binder(
            client, volumes, claims, Metrics(), self.results.append, at_once=2, may_write=lambda: self.leads
        )
        self.task = self.make()

    def make(self) -> BindTask:
        """The pod waits; its place."""
        spec = {"schedulerName": "gpufleet", "containers": [{"name": "main", "image": "x"}]}
        made = self.server.add({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
        pod = PodName("default", "p", PodUid(made["metadata"]["uid"]))
        return BindTask(pod, OURS, annotations={keys.GRANT: write_grant(Grant(EPOCH))})

    def node(self) -> str:
        """The node of the pod as the server has it."""
        found = self.server.store.get(("", "pods"), ("default", "p"))
        return "" if found is None else found["spec"].get("nodeName", "")

    def binds_to(self, node: NodeName) -> Callable[[], None]:
        """A Binding of the pod that arrives in between."""

        def arrives() -> None:
            metadata = {
                "name": "p",
                "uid": self.task.pod.uid,
                "annotations": self.task.annotations,
            }
            body = msgspec.json.encode({"metadata": metadata, "target": {"kind": "Node", "name": node}})
            request = Request("POST", f"{POD}/binding", body, "application/json")
            assert self.server.answer(request, SCHEDULER_USER).status == 201

        return arrives

    async def bind(self, *spoilt: Spoilt, wait_s: float = 30.0) -> list[Outcome]:
        """Bind the pod, with what becomes of the first requests; all that was told."""
        self.way.spoilt = list(spoilt)
        self.binder.submit(self.task)
        await self.clock.sleep(wait_s)
        return [one.outcome for one in self.results]


def in_case(story: Callable[[Case], Awaitable[None]]) -> None:
    """Run a story in virtual time."""

    async def work(loop: VirtualLoop) -> None:
        case = Case(loop)
        # The policy that fences older leaders learns of the Lease a moment after it was written.
        await case.clock.sleep(5.0)
        async with at_work(case.binder.run()):
            await story(case)

    run(work)


def test_a_pod_is_bound_with_one_request_and_its_annotations() -> None:
    async def story(case: Case) -> None:
        assert await case.bind() == [Outcome.BOUND]
        assert len(case.way.asked) == 1
        found = case.server.store.get(("", "pods"), ("default", "p"))
        assert found is not None
        assert found["metadata"]["annotations"][keys.GRANT] == case.task.annotations[keys.GRANT]
        assert case.binder.backlog == 0

    in_case(story)


@pytest.mark.parametrize("lost", list(Lost))
def test_an_answer_that_does_not_come_is_found_out_and_told_once(lost: Lost) -> None:
    async def story(case: Case) -> None:
        assert await case.bind(lost) == [Outcome.BOUND]
        assert case.node() == OURS
        # A Binding that arrived is read back, and not sent again.
        assert len(case.way.asked) == (2 if lost is Lost.REQUEST else 1)

    in_case(story)


@pytest.mark.parametrize("code", [429, 500, 503, 504])
def test_a_server_that_cannot_now_is_asked_again(code: int) -> None:
    async def story(case: Case) -> None:
        answer = too_many(1) if code == 429 else refused(code, "not now")
        assert await case.bind(answer, answer) == [Outcome.BOUND]
        assert len(case.way.asked) == 3

    in_case(story)


def test_a_server_that_never_answers_is_given_up_after_it_would_have_ended_the_request() -> None:
    async def story(case: Case) -> None:
        outcomes = await case.bind(*[Lost.REQUEST] * 1000, wait_s=GIVE_UP_S + 10)
        assert outcomes == [Outcome.GAVE_UP]
        first_s, last_s = case.way.asked[0][0], case.way.asked[-1][0]
        assert GIVE_UP_S - 10 < last_s - first_s <= GIVE_UP_S

    in_case(story)


@pytest.mark.parametrize(
    ("code", "message", "outcome"),
    [
        (403, f"ValidatingAdmissionPolicy denied request: {FENCED}", Outcome.FENCED),
        (403, "no", Outcome.REFUSED),
        (422, "not valid", Outcome.REFUSED),
    ],
)
def test_a_definite_refusal_is_told_in_the_words_of_the_server(
    code: int, message: str, outcome: Outcome
) -> None:
    async def story(case: Case) -> None:
        assert await case.bind(refused(code, message)) == [outcome]
        assert message in case.results[0].words
        assert case.node() == ""

    in_case(story)


def test_a_second_binding_that_is_refused_because_the_first_arrived_counts_as_bound() -> None:
    async def story(case: Case) -> None:
        assert await case.bind(case.binds_to(OURS)) == [Outcome.BOUND]
        assert case.node() == OURS

    in_case(story)


def test_a_pod_is_ours_by_its_grant_whatever_else_was_said_meanwhile() -> None:
    """Before the Binding that arrived is read back, a person takes the protection off."""

    async def story(case: Case) -> None:
        case.task.annotations[keys.DO_NOT_DISRUPT] = "true"
        binds = case.binds_to(OURS)

        def binds_and_is_edited() -> None:
            binds()
            patch = msgspec.json.encode({"metadata": {"annotations": {keys.DO_NOT_DISRUPT: None}}})
            edit = Request("PATCH", POD, patch, "application/merge-patch+json")
            assert case.server.answer(edit, ADMIN).status == 200

        assert await case.bind(binds_and_is_edited) == [Outcome.BOUND]

    in_case(story)


def test_a_pod_that_another_bound_is_taken() -> None:
    async def story(case: Case) -> None:
        assert await case.bind(case.binds_to(OTHERS)) == [Outcome.TAKEN]
        assert case.node() == OTHERS

    in_case(story)


def test_a_pod_that_is_gone_or_made_anew_under_its_name_is_gone() -> None:
    async def story(case: Case) -> None:
        assert case.server.answer(Request("DELETE", f"{POD}?gracePeriodSeconds=0"), ADMIN).status == 200
        assert await case.bind() == [Outcome.GONE]
        case.make()
        assert await case.bind(Lost.REQUEST) == [Outcome.GONE, Outcome.GONE]
        assert case.node() == ""

    in_case(story)


def test_no_pod_is_bound_once_leadership_is_uncertain() -> None:
    async def work(loop: VirtualLoop) -> None:
        case = Case(loop)
        case.leads = False
        case.binder.submit(case.task)
        with pytest.raises(BaseExceptionGroup) as raised:
            await case.binder.run()
        assert raised.value.subgroup(LeadershipLost) is not None
        assert not case.way.asked

    run(work)
