"""The page behind a real oauth2-proxy with the options of docs/web.md: who logs in sees what is theirs."""

import contextlib
import json
import urllib.error
from collections.abc import Iterator

import pytest

from gpufleet.localkube import manifests, simulated_nodes
from gpufleet.localkube.control_plane import Options
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from tests.localkube.cluster import KUBERNETES, a_cluster
from tests.usage.prometheus.server import free_port
from tests.waiting import until
from tests.web.login.oauth2_proxy import Person, documented, oauth2_proxy
from tests.web.login.programs import PROXY
from tests.web.people import LISTS_THE_FLEET, RIGHTS, add_pod, bind, namespace
from tests.web.web_server import web_server

ADA, EVE = "ada@example.com", "eve@example.com"
CLAIM = ("X-Forwarded-Email", ADA)
"""A field that a browser writes itself."""


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The proxy's address; Ada may see one namespace and the fleet, Eve nothing."""
    folder = tmp_path_factory.mktemp("proxy")
    field = documented()["proxy"]["userField"]
    trusted = [f"--trusted-proxy={address}" for address in documented()["proxy"]["addresses"]]
    port = free_port()
    options = ("--login=cluster", f"--host=127.0.0.1:{port}", f"--proxy-user-field={field}", *trusted)
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(a_cluster(folder / "cluster", options=Options(kubernetes=KUBERNETES)))
        with running.api() as api:
            manifests.install(api)
            simulated_nodes.create(running, SimulatedNodes(1, 4, gpu_model("H100-80GB")))
            namespace(api, "open-team")
            add_pod(api, "open-team", "open-waits", 2)
            api.call("POST", f"{RIGHTS}/clusterroles", LISTS_THE_FLEET)
            bind(api, ADA, "view", "open-team", kind="User")
            bind(api, ADA, "lists-the-fleet", kind="User")
        page = stack.enter_context(web_server(running.kubeconfig, folder, *options))
        yield stack.enter_context(oauth2_proxy(folder, port, f"http://127.0.0.1:{page.port}", ADA, EVE))


@pytest.fixture(scope="module")
def ada(proxy: str) -> Person:
    person = Person()
    url, page = person.log_in(proxy, ADA)
    assert url == f"{proxy}/"
    assert "gpufleet" in page
    return person


def about(person: Person, proxy: str, *fields: tuple[str, str]) -> dict[str, object]:
    found: dict[str, object] = json.loads(person.open(f"{proxy}/api/about", None, *fields)[1])
    return found


def test_the_documented_version_is_the_one_that_runs() -> None:
    (container,) = documented()["extraContainers"]
    assert container["image"].endswith(f":v{PROXY.version}")


def test_who_logged_in_is_known_by_name_and_sees_what_is_theirs(proxy: str, ada: Person) -> None:
    assert about(ada, proxy)["user"] == ADA
    until(lambda: about(ada, proxy).get("namespaces") == ["open-team"])
    assert "open-waits" in ada.open(f"{proxy}/api/work/pod/open-team/open-waits")[1]


def test_who_has_no_rights_logs_in_and_sees_nothing(proxy: str) -> None:
    eve = Person()
    eve.log_in(proxy, EVE)
    assert about(eve, proxy)["user"] == EVE
    with pytest.raises(urllib.error.HTTPError, match="404"):
        eve.open(f"{proxy}/api/work/pod/open-team/open-waits")


def test_nobody_comes_past_the_login(proxy: str) -> None:
    for path in ("/", "/api/about", "/api/stream"):
        with pytest.raises(urllib.error.HTTPError, match="403"):
            Person().open(f"{proxy}{path}")


def test_a_name_that_a_browser_writes_itself_is_replaced(proxy: str) -> None:
    eve = Person()
    eve.log_in(proxy, EVE)
    assert about(eve, proxy, CLAIM)["user"] == EVE
    with pytest.raises(urllib.error.HTTPError, match="403"):
        Person().open(f"{proxy}/api/about", None, CLAIM)


def test_the_stream_comes_through_the_proxy_as_it_is_sent(proxy: str, ada: Person) -> None:
    with ada.stream(f"{proxy}/api/stream") as stream:
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        lines = iter(stream.readline, b"")
        assert any(b'"gpu-001"' in line for line in lines)
