"""When people were last at work in the servers of a JupyterHub, as the hub's own API tells it.

A hub knows of each server when its user last did something in it. ``GET users?state=active`` lists them page
by page; a token of a service with the scopes ``list:users``, ``read:users:activity`` and ``read:servers`` is
enough. The hub is only read: idle servers end by their pods. A redirect is not followed, because the token
must reach the named hub alone.
"""

import http.client
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import urlencode

import msgspec

from gpufleet import __version__
from gpufleet.files.fetching import NoRedirect, fetched
from gpufleet.kube.codec.times import microseconds
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.model.model_errors import InputError, WorldError, printable
from gpufleet.operator.parking.activity import Activity, Judgement
from gpufleet.operator.parking.work_pods import JUPYTERHUB_ESCAPED_LABEL, JUPYTERHUB_LABEL
from gpufleet.usage.prometheus.access import Access, read_access

PAGE_SIZE = 200
"""The most that a hub gives at once."""

PAGES_MAX = 500
"""100,000 users: an answer without an end is none."""

STEP_S, TOTAL_S = 10.0, 20.0
"""For one page: a round of parking comes every minute."""

ANSWER_BYTES_MAX = 2**24
"""A page of 200 users with some servers each has some hundred thousand bytes."""

UNSEEN = "its JupyterHub does not tell when a person was last at work in it"


class HubServer(NamedTuple):
    """A server by its user and its name, which is "" for a user's only one."""

    user: str
    name: str


class SessionSource(Protocol):
    """A hub whose servers run in one namespace."""

    namespace: str

    def last_seen(self) -> Mapping[HubServer, int]:
        """When a person last did something, microseconds since 1970. Raises WorldError and InputError."""


class _Server(msgspec.Struct):
    last_activity: str | None = None


class _User(msgspec.Struct):
    name: str
    servers: dict[str, _Server] = {}


class _Next(msgspec.Struct):
    offset: int


class _Pagination(msgspec.Struct):
    next: _Next | None = None


class _Page(msgspec.Struct):
    items: list[_User]
    pagination: _Pagination = msgspec.field(name="_pagination", default_factory=_Pagination)


# Hubs before 2.0 know no pages, and answer with the list of all users.
_DECODER: msgspec.json.Decoder[_Page | list[_User]] = msgspec.json.Decoder(_Page | list[_User])


OPTION = "--jupyterhub"
EXAMPLE = "an address such as http://hub.jupyterhub:8081/hub/api"


def hub_if_any(
    url: str | None, namespace: str | None, token_file: Path | None, authority_file: Path | None
) -> "JupyterHub | None":
    """The hub that options name, else None. Raises InputError for what is of no use without the others."""
    needed = {f"{OPTION}-namespace": namespace, f"{OPTION}-token-file": token_file}
    if url is None:
        for option, value in {**needed, f"{OPTION}-ca-file": authority_file}.items():
            if value is not None:
                raise InputError("there is no hub for it", field=option, expected=f"{OPTION} URL beside it")
        return None
    access = read_access(url, token_file, authority_file, option=OPTION, example=EXAMPLE)
    # Read for their errors alone, and anew each time they are needed: Secrets are renewed.
    access.tls()
    access.token()
    missing = next((option for option, value in needed.items() if value is None), None)
    if missing is not None or namespace is None:
        raise InputError("not said with it", field=OPTION, expected=f"{missing} beside it")
    return JupyterHub(access, namespace)


class JupyterHub:
    """The API of a hub, such as http://hub.jupyterhub:8081/hub/api."""

    def __init__(self, access: Access, namespace: str) -> None:
        self._access = access
        self.namespace = namespace

    def last_seen(self) -> Mapping[HubServer, int]:
        """When a person last did something in each server that runs. Raises WorldError and InputError."""
        return {
            HubServer(user.name, name): at_us
            for user in self._users()
            for name, server in user.servers.items()
            if (at_us := _moment(server.last_activity))
        }

    def _users(self) -> Iterator[_User]:
        offset = 0
        for _ in range(PAGES_MAX):
            page = self._page(offset)
            if isinstance(page, list):
                yield from page
                return
            yield from page.items
            following = page.pagination.next
            # A hub that names the same page again would be asked for ever.
            if following is None or following.offset <= offset:
                return
            offset = following.offset
        raise WorldError(
            f"the JupyterHub at {self._access.url} lists more than {PAGES_MAX * PAGE_SIZE} users"
        )

    def _page(self, offset: int) -> _Page | list[_User]:
        asked = {"state": "active", "offset": offset, "limit": PAGE_SIZE}
        request = urllib.request.Request(  # noqa: S310  http or https, see access
            f"{self._access.url}/users?{urlencode(asked)}",
            headers={
                "Accept": "application/jupyterhub-pagination+json, application/json",
                "Authorization": f"token {self._access.token()}",
                "User-Agent": f"gpufleet/{__version__}",
            },
        )
        tls = self._access.tls()
        try:
            with fetched(
                request, step_s=STEP_S, total_s=TOTAL_S, tls=tls, handlers=(NoRedirect(),)
            ) as response:
                body = response.read(ANSWER_BYTES_MAX)
        except urllib.error.HTTPError as error:
            scopes = "; its token needs list:users, read:users:activity and read:servers"
            more = scopes if error.code in {401, 403} else ""
            raise WorldError(f"the JupyterHub at {self._access.url} answers {error.code}{more}") from error
        except (OSError, ValueError, http.client.HTTPException) as error:
            words = printable(str(error) or repr(error), 200)
            raise WorldError(f"no answer from the JupyterHub at {self._access.url}: {words}") from error
        try:
            return _DECODER.decode(body)
        except msgspec.DecodeError as error:
            words = printable(str(error), 200)
            raise WorldError(f"{self._access.url}/users is no list of a JupyterHub: {words}") from error


def _moment(text: str | None) -> int:
    """0 for a time that is not told, or that cannot be read: the server is not known then."""
    try:
        return microseconds(text)
    except InputError:
        return 0


def server_of(metadata: Metadata) -> HubServer:
    """Which server of its hub a pod is."""
    # KubeSpawner writes the names as the hub has them under the keys of the labels, where they are escaped. A
    # user's own server has no name.
    annotations = metadata.annotations
    return HubServer(annotations.get(JUPYTERHUB_LABEL, ""), annotations.get(JUPYTERHUB_ESCAPED_LABEL, ""))


def judged_with(judgement: Judgement, last_us: int, after_us: int, now_us: int) -> Judgement:
    """A judgement of measurements, and when the hub saw a person last; 0: it says nothing of the server."""
    if judgement.activity not in {Activity.QUIET, Activity.IDLE}:
        return judgement
    if not last_us:
        return Judgement(Activity.UNKNOWN, reason=UNSEEN)
    since_us = max(judgement.quiet_since_us, last_us)
    activity = Activity.IDLE if now_us - since_us >= after_us else Activity.QUIET
    reason = "a person was at work" if since_us == last_us else judgement.reason
    return Judgement(activity, since_us, reason, judgement.holds_memory)
