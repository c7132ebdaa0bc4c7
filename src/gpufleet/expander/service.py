"""Cluster Autoscaler's gRPC expander: one question at a time, over TLS.

An answer without options is a veto: the autoscaler then buys nothing in this round. Where there is no answer,
it goes on as if no expander were there, so an error never stops it from buying.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import grpc

from gpufleet.daemon.grpc_listener import GrpcListener
from gpufleet.expander.answering import Answered, Answering
from gpufleet.expander.expander_record import ExpanderRecord
from gpufleet.expander.judgement import Seen
from gpufleet.expander.protocol import expander_pb2 as api
from gpufleet.expander.protocol.question import Option, read_question
from gpufleet.model.model_errors import GpufleetError, InputError, WorldError

LOG = logging.getLogger(__name__)
SERVICE = "grpcplugin.Expander"
QUESTION_BYTES_MAX = 128 << 20
"""The autoscaler's own limit for answers. A question has every waiting pod once for each option; gRPC's limit
of 4 MiB is a few hundred pods.
"""

ANSWER_S = 5.0
"""How long the autoscaler waits; also where it does not say so."""

RESERVE_S = 0.3
"""What is kept of that for the way back."""

CLOSE_S = 1.0
"""A call under way is not waited for: without an answer the autoscaler chooses alone."""

if TYPE_CHECKING:
    Context = grpc.aio.ServicerContext[Any, Any]

Look = Callable[[], Awaitable[Seen]]


class ExpanderService:
    """Answers at an address until it is cancelled.

    ``look`` gives the cluster as it is now, and ``decided`` is given each answer that is sent.
    """

    def __init__(
        self,
        look: Look,
        answering: Answering,
        record: ExpanderRecord,
        address: str,
        credentials: grpc.ServerCredentials,
        decided: Callable[[Answered], None],
    ) -> None:
        self._look = look
        self._answering = answering
        self._record = record
        self._decided = decided
        self._turn = asyncio.Lock()
        self.listener = GrpcListener(address, "--expander", close_s=CLOSE_S, credentials=credentials)

    async def run(self) -> None:
        """Serve. Raises InputError where the address cannot be listened on."""
        server = grpc.aio.server(options=[("grpc.max_receive_message_length", QUESTION_BYTES_MAX)])
        handler = grpc.unary_unary_rpc_method_handler(
            self._best_options, api.BestOptionsRequest.FromString, api.BestOptionsResponse.SerializeToString
        )
        handlers = grpc.method_handlers_generic_handler(SERVICE, {"BestOptions": handler})
        server.add_generic_rpc_handlers((handlers,))
        await self.listener.serve(server)

    async def _best_options(
        self, asked: api.BestOptionsRequest, context: "Context"
    ) -> api.BestOptionsResponse:
        left_s: float | None = context.time_remaining()
        ends_at_s = time.monotonic() + min(ANSWER_S, ANSWER_S if left_s is None else left_s) - RESERVE_S
        try:
            options = read_question(asked)
            # One after the other: what the answer before has chosen counts as coming in this one.
            async with self._turn:
                answered = await self._answer(options, ends_at_s)
        except InputError as error:
            self._failed(error)
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except GpufleetError as error:
            self._failed(error)
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        self._record.answered(answered)
        _log(options, answered)
        return api.BestOptionsResponse(options=[asked.options[at] for at in answered.choice.options])

    async def _answer(self, options: tuple[Option, ...], ends_at_s: float) -> Answered:
        if time.monotonic() > ends_at_s:
            raise WorldError("the question before took all the time that the autoscaler waits")
        seen = await self._look()
        # A thread, as the engine computes for seconds on a large fleet, and probes are answered meanwhile.
        answered = await asyncio.to_thread(self._answering.answer, seen, options, ends_at_s)
        if time.monotonic() > ends_at_s:
            raise WorldError("the answer is too late: the autoscaler waits no longer")
        self._answering.sent(answered)
        self._decided(answered)
        return answered

    def _failed(self, error: GpufleetError) -> None:
        self._record.failed()
        LOG.warning("no option is chosen; the autoscaler does it alone", extra={"problem": str(error)})


def _log(options: tuple[Option, ...], answered: Answered) -> None:
    choice = answered.choice
    LOG.info(
        "a question is answered",
        extra={
            "outcome": choice.outcome.value,
            "options": {one.group: one.node_count for one in options},
            "groups": [options[at].group for at in choice.options],
            "pods": len(choice.pods),
            "coming_nodes": answered.coming_nodes,
            "took_s": round(answered.took_s, 3),
        },
    )
