"""A real oauth2-proxy before the page, as the document has it, and a provider of OpenID Connect behind it.

The provider is the example of a library; people are in its file. A browser here follows redirects and keeps
cookies, and types name and password into the provider's form.
"""

import contextlib
import http.cookiejar
import json
import os
import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.conventions.project import ROOT
from tests.usage.prometheus.server import free_port
from tests.waiting import until
from tests.web.login.programs import PROVIDER, PROXY, program

PASSWORD = "verysecure"  # noqa: S105  of a made-up person
CLIENT, CLIENT_SECRET = "web", "secret"
"""The provider's example knows this one."""

COOKIE_SECRET = "0123456789abcdef0123456789abcdef"  # noqa: S105  of a proxy that lives for a test
START_S = 60.0


def documented() -> dict[str, Any]:
    """The values of the chart that docs/web.md shows for a proxy beside the page."""
    text = (ROOT / "docs" / "web.md").read_text(encoding="utf-8")
    (block,) = (one for one in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if "oauth2-proxy" in one)
    web: dict[str, Any] = yaml.safe_load(block)["web"]
    return web


def arguments(folder: Path, port: int, upstream: str, issuer: str) -> list[str]:
    """The proxy's options of the document with the addresses and files of this machine."""
    (container,) = documented()["extraContainers"]
    here = {
        "--http-address": f"127.0.0.1:{port}",
        "--upstream": upstream,
        "--oidc-issuer-url": issuer,
        "--client-id": CLIENT,
        "--client-secret-file": str(folder / "client-secret"),
        "--cookie-secret-file": str(folder / "cookie-secret"),
        "--redirect-url": f"http://127.0.0.1:{port}/oauth2/callback",
    }
    told = dict(one.split("=", 1) for one in container["args"])
    assert here.keys() <= told.keys()
    # There is no HTTPS on this machine's loopback.
    return [f"{name}={value}" for name, value in {**told, **here, "--cookie-secure": "false"}.items()]


@contextlib.contextmanager
def provider(folder: Path, proxy_port: int, *people: str) -> Iterator[str]:
    """The issuer's address; ``people`` are mail addresses, which are names to log in by too."""
    port = free_port()
    known = {
        one: {"ID": one, "Username": one, "Password": PASSWORD, "Email": one, "EmailVerified": True}
        for one in people
    }
    (folder / "people.json").write_text(json.dumps(known), encoding="utf-8")
    environment = {
        **os.environ,
        "PORT": str(port),
        "USERS_FILE": str(folder / "people.json"),
        "REDIRECT_URI": f"http://127.0.0.1:{proxy_port}/oauth2/callback",
    }
    issuer = f"http://localhost:{port}/"
    with at_work([str(program(PROVIDER))], f"{issuer}.well-known/openid-configuration", folder, environment):
        yield issuer


@contextlib.contextmanager
def oauth2_proxy(folder: Path, port: int, upstream: str, *people: str) -> Iterator[str]:
    """The proxy's address at this port, before a page at ``upstream``."""
    (folder / "client-secret").write_text(CLIENT_SECRET, encoding="utf-8")
    (folder / "cookie-secret").write_text(COOKIE_SECRET, encoding="utf-8")
    with provider(folder, port, *people) as issuer:
        command = [str(program(PROXY)), *arguments(folder, port, upstream, issuer)]
        with at_work(command, f"http://127.0.0.1:{port}/ping", folder, dict(os.environ)):
            yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def at_work(command: list[str], probe: str, folder: Path, environment: dict[str, str]) -> Iterator[None]:
    """The program, from when it answers at ``probe`` to the end of the block."""
    log = folder / f"{Path(command[0]).name}.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stdout=output, stderr=output, env=environment) as one,
    ):
        try:
            until(lambda: one.poll() is not None or answers(probe), START_S)
            assert one.poll() is None, log.read_text(encoding="utf-8")
            yield
        finally:
            one.terminate()


def answers(url: str) -> bool:
    """Whether something answers well there."""
    try:
        with urllib.request.urlopen(url, timeout=10):  # noqa: S310  our own
            return True
    except OSError:
        return False


class Person:
    """A browser that may log in; it keeps cookies and follows redirects."""

    def __init__(self) -> None:
        jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(jar)

    def open(self, url: str, form: dict[str, str] | None = None, *fields: tuple[str, str]) -> tuple[str, str]:
        """Where it ends, and what is there. Raises HTTPError for a refusal."""
        body = None if form is None else urllib.parse.urlencode(form).encode()
        request = urllib.request.Request(url, body, dict(fields))  # noqa: S310  our own
        with self._opener.open(request, timeout=60) as answer:
            return answer.url, answer.read().decode()

    def log_in(self, proxy: str, name: str) -> tuple[str, str]:
        """Go to the page by way of the provider's form."""
        url, form = self.open(f"{proxy}/oauth2/start?rd=/")
        (action,) = re.findall(r'<form[^>]*action="([^"]+)"', form)
        (id_,) = re.findall(r'name="id" value="([^"]+)"', form)
        typed = {"username": name, "password": PASSWORD, "id": id_}
        return self.open(urllib.parse.urljoin(url, action), typed)

    @contextlib.contextmanager
    def stream(self, url: str) -> Iterator[Any]:
        """An answer that goes on."""
        with self._opener.open(url, timeout=60) as answer:
            yield answer
