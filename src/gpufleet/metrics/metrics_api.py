"""A request to its answer: which caller asks, whether it may, which values there are, and their document.

What fails ends as a Status of the API: an autoscaler puts its words into a condition and an Event, where
people read them. ``served_values`` finds the values.
"""

import datetime as dt
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Protocol

import msgspec

from gpufleet.daemon.http_server import Page, Request
from gpufleet.kube.access_reviews import Attributes, User
from gpufleet.kube.kube_errors import KubeError
from gpufleet.metrics import catalogue
from gpufleet.metrics.callers.request_header import FrontProxy, vouched_for
from gpufleet.metrics.served_values import NoValueError, ServedValues
from gpufleet.metrics.wire import documents
from gpufleet.metrics.wire.documents import Json, refusal
from gpufleet.metrics.wire.questions import (
    CUSTOM,
    AboutNothing,
    AboutObjects,
    Document,
    Question,
    read_question,
)
from gpufleet.model.model_errors import InputError
from gpufleet.model.phrases import harmless

LOG = logging.getLogger(__name__)
JSON = "application/json"
BEARER = "bearer "


class Rights(Protocol):
    """Says which caller has a token, and what a caller may do."""

    async def caller_of(self, token: str) -> User | None:
        """The caller with this token; None if there is none."""
        ...

    async def may(self, caller: User, attributes: Attributes) -> bool:
        """Whether the caller has the right."""
        ...


class _RefusedError(Exception):
    def __init__(self, status: HTTPStatus, message: str, *, details: bool = False) -> None:
        self.status = status
        self.document = refusal(status, message, details=details)
        super().__init__(message)


class MetricsApi:
    """Answers requests for ``daemon.http_server``. ``front_proxy`` is asked at each request."""

    def __init__(
        self,
        values: ServedValues,
        rights: Rights,
        front_proxy: Callable[[], FrontProxy],
        now: Callable[[], dt.datetime],
    ) -> None:
        self._values = values
        self._rights = rights
        self._front_proxy = front_proxy
        self._now = now

    async def answer(self, request: Request) -> Page:
        """The answer; never raises for what a caller sends."""
        try:
            caller = await self._caller(request)
            question = _question(request.target)
            await self._check(caller, question)
            status, document = HTTPStatus.OK, await self._document(question)
        except _RefusedError as error:
            status, document = error.status, error.document
        except KubeError as error:
            LOG.warning("a caller cannot be checked", extra={"problem": str(error)})
            status = HTTPStatus.SERVICE_UNAVAILABLE
            document = refusal(status, "the API server does not say which caller this is, or what it may")
        self._values.record.answered(status)
        return Page((msgspec.json.encode(document), b"\n"), JSON, status=status)

    async def _caller(self, request: Request) -> User:
        found = vouched_for(request, self._front_proxy(), self._now())
        if found is not None:
            return found.authenticated()
        authorization = request.one_of("authorization")
        if authorization.lower().startswith(BEARER):
            found = await self._rights.caller_of(authorization[len(BEARER) :].strip())
        if found is None:
            raise _RefusedError(HTTPStatus.UNAUTHORIZED, "Unauthorized")
        return found.authenticated()

    async def _check(self, caller: User, question: Question) -> None:
        attributes = question.attributes
        if await self._rights.may(caller, attributes):
            return
        name = harmless(caller.name)
        if attributes.path:
            message = f'forbidden: User "{name}" cannot {attributes.verb} path "{harmless(attributes.path)}"'
        else:
            resource = "/".join(part for part in (attributes.resource, attributes.subresource) if part)
            where = f' in the namespace "{attributes.namespace}"' if attributes.namespace else ""
            message = (
                f'{attributes.resource}.{attributes.group} is forbidden: User "{name}" cannot '
                f'{attributes.verb} resource "{resource}" in API group "{attributes.group}"{where}'
            )
        raise _RefusedError(HTTPStatus.FORBIDDEN, message)

    async def _document(self, question: Question) -> Json:
        try:
            match question:
                case AboutObjects():
                    found = await self._values.about_objects(question)
                    return documents.value_list(question.version, found, question.metric, question.series)
                case AboutNothing():
                    values = await self._values.about_nothing(question)
                    series = ((question.metric, one.labels, one.at_s, one.amount) for one in values)
                    return documents.external_list(series)
                case Document(path):
                    return _of_discovery(path)
        except NoValueError as error:
            raise _RefusedError(HTTPStatus.NOT_FOUND, str(error)) from error
        if question.incomplete:
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "invalid request path")
        raise _RefusedError(HTTPStatus.NOT_FOUND, documents.NO_SUCH_RESOURCE, details=True)


def _question(target: str) -> Question:
    try:
        return read_question(target)
    except InputError as error:
        raise _RefusedError(HTTPStatus.BAD_REQUEST, error.problem) from error


def _of_discovery(path: str) -> Json:
    match path.split("/")[1:]:
        case ["apis", group, version]:
            custom = group == CUSTOM
            metrics = catalogue.custom_metrics() if custom else catalogue.external_metrics()
            return documents.resource_list(group, version, metrics)
        case ["apis", group]:
            return documents.api_group(group)
        case ["apis"]:
            return documents.api_groups()
        case ["openapi", "v2"]:
            return documents.OPENAPI_V2
        case ["openapi", "v3"]:
            return documents.OPENAPI_V3
        case _:
            return {
                "paths": ["/apis", "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz"]
            }
