"""Kubeconfigs as kubectl reads them, and what a bad one is told."""

import asyncio
import base64
import json
import logging
import os
import ssl
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpufleet.kube.configured_access import ConfiguredAccess, in_cluster_access
from gpufleet.kube.following_access import FollowingAccess, find_access
from gpufleet.kube.http_transport import HttpTransport
from gpufleet.kube.kube_errors import SettingsError, TransportError
from gpufleet.kube.kubeconfig import Overrides, choose, default_files
from gpufleet.kube.transport import Request
from tests.kube.byte_server import CERTIFICATES, server_tls, serving, within

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Found = FollowingAccess | ConfiguredAccess
SECRET = "verysecret"  # noqa: S105  (of nothing)


def in_base64(name: str) -> str:
    return base64.b64encode((CERTIFICATES / name).read_bytes()).decode()


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def config(
    cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, name: str = "a"
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": f"ns-{name}"}}],
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}.example:6443"} | (cluster or {})}],
        "users": [{"name": name, "user": user or {}}],
    }


def access_of(tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any]) -> Found:
    return find_access(kubeconfig=write(tmp_path / "config", config(cluster, user)), environment={})


def authorization(access: Found) -> str:
    return asyncio.run(access.authorization())


def test_current_context_is_taken(tmp_path: Path) -> None:
    access = access_of(tmp_path, {"tls-server-name": "other"}, {"token": SECRET})
    assert (access.endpoint.host, access.endpoint.port) == ("a.example", 6443)
    assert access.endpoint.server_name == "other"
    assert access.namespace == "ns-a"
    assert authorization(access) == f"Bearer {SECRET}"


def test_yaml_as_people_write_it(tmp_path: Path) -> None:
    text = """
    # a comment
    apiVersion: v1
    kind: Config
    preferences: {}
    current-context: dev
    contexts:
    - name: dev
      context: {cluster: c, user: u}
    clusters:
    - name: c
      cluster:
        server: http://127.0.0.1:8001/base/
        extensions:
        - name: some-tool
          extension: {anything: [1, 2]}
    users:
    - name: u
      user:
        username: someone
        password: "pass:word"
    """
    access = find_access(kubeconfig=write(tmp_path / "config", text), environment={})
    assert (access.endpoint.tls, access.endpoint.prefix) == (False, "/base")
    assert access.namespace == "default"
    assert base64.b64decode(authorization(access).removeprefix("Basic ")) == b"someone:pass:word"


def test_first_file_wins_and_missing_ones_are_left_out(tmp_path: Path) -> None:
    one = write(tmp_path / "one", config() | {"current-context": None})
    two = write(
        tmp_path / "two",
        {
            "current-context": "b",
            "contexts": config(name="b")["contexts"] + [{"name": "a", "context": {"cluster": "b"}}],
            "clusters": config(name="b")["clusters"] + config({"server": "https://wrong"})["clusters"],
            "users": None,
        },
    )
    listed = os.pathsep.join(["", str(one), str(tmp_path / "none"), str(two), str(one)])
    files = default_files({"KUBECONFIG": listed})
    assert files == [one, two]
    assert choose(files, Overrides(context="a")).cluster.server == "https://a.example:6443"
    with pytest.raises(SettingsError, match=r"contexts\[b\].user: there is no user of this name, found 'b'"):
        choose(files)


def test_home_is_the_last_resort(tmp_path: Path) -> None:
    file = write(tmp_path / ".kube" / "config", config())
    assert default_files({"HOME": str(tmp_path)}) == [file]
    with pytest.raises(SettingsError, match="no cluster is known"):
        find_access(environment={"HOME": str(tmp_path / "elsewhere")})


def test_flags_go_before_the_context(tmp_path: Path) -> None:
    file = write(tmp_path / "config", config(user={"token": "one"}))
    other = write(tmp_path / "other", config(user={"token": "two"}, name="b"))
    chosen = choose([file, other], Overrides(cluster="b", user="b", namespace="n"))
    assert (chosen.context, chosen.namespace) == ("a", "n")
    assert chosen.cluster.server == "https://b.example:6443"
    assert chosen.user.token == "two"  # noqa: S105  (of nothing)
    assert chosen.user_file == other


def test_certificates_from_data_and_from_files_beside_the_config(tmp_path: Path) -> None:
    for name in ("ca.crt", "client.crt", "client.key"):
        (tmp_path / name).write_bytes((CERTIFICATES / name).read_bytes())
    by_data = (
        {"certificate-authority-data": in_base64("ca.crt"), "certificate-authority": "not there"},
        {"client-certificate-data": in_base64("client.crt"), "client-key-data": in_base64("client.key")},
    )
    by_file = (
        {"certificate-authority": "ca.crt"},
        {"client-certificate": "client.crt", "client-key": str(tmp_path / "client.key")},
    )

    async def main() -> None:
        for cluster, user in (by_data, by_file):
            async with serving([OK], tls=server_tls(asks_for_client=True)) as server:
                address = {"server": f"https://127.0.0.1:{server.port}"}
                transport = HttpTransport(access_of(tmp_path, cluster | address, user))
                assert (await transport.call(Request("GET", "/"), timeout_s=5)).body == b"ok"
                await transport.close()
                assert "someone" in str(server.peer_names)

    within(10, main)


def test_unverified_server_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with serving([OK], tls=server_tls()) as server:
            address = {"server": f"https://127.0.0.1:{server.port}", "insecure-skip-tls-verify": True}
            transport = HttpTransport(access_of(tmp_path, address, {}))
            assert (await transport.call(Request("GET", "/"), timeout_s=5)).body == b"ok"
            await transport.close()

    with caplog.at_level(logging.WARNING):
        within(10, main)
    assert "NOT verified" in caplog.text


def test_token_file_is_read_again_when_it_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "token", "first\n")
    access = access_of(tmp_path, {}, {"tokenFile": "token", "token": "other"})

    async def main() -> None:
        assert await access.authorization() == "Bearer first"
        assert not await access.refused()
        file.write_text("second")
        assert await access.authorization() == "Bearer first"
        assert await access.refused()
        assert await access.authorization() == "Bearer second"
        file.unlink()
        assert not await access.refused()
        assert await access.authorization() == "Bearer second"

    within(10, main)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("a: [", "is no YAML (line"),
        ("\tclusters:", "is no YAML (line"),
        ("just text", "Expected `object`"),
        ("[]", "Expected `object`"),
        ("clusters: {}", "$.clusters"),
        ("clusters: [{cluster: {}}]", "`name`"),
        ("clusters: [{name: a, cluster: {server: [1]}}]", "$.clusters[0].cluster.server"),
        ("users: [{name: 1}]", "$.users[0].name"),
        ("", "no context is chosen"),
        ("{}", "current-context: no context is chosen"),
        ("current-context: x", "there is no context of this name, found 'x'; expected one of none"),
        ("a: !!python/object/apply:os.system [ls]", "is no YAML"),
        ("a: &a [*a", "has aliases"),
        ("a: [b", "is no YAML"),
        ("\x00", "is no YAML"),
    ],
)
def test_malformed_file_is_told_with_its_place(tmp_path: Path, content: str, says: str) -> None:
    file = write(tmp_path / "config", content)
    with pytest.raises(SettingsError) as caught:
        find_access(kubeconfig=file, environment={})
    assert says in str(caught.value)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("cluster", "user", "field"),
    [
        ({"server": ""}, {}, "cluster.server"),
        ({"server": "ftp://x"}, {}, "cluster.server"),
        ({"server": "https://"}, {}, "cluster.server"),
        ({"server": "https://x:99999"}, {}, "cluster.server"),
        ({"server": "https://user:pw@x"}, {}, "cluster.server"),
        ({"server": "https://x?y"}, {}, "cluster.server"),
        ({"proxy-url": f"http://me:{SECRET}@proxy:3128"}, {}, "cluster.proxy-url"),
        ({"certificate-authority": "not/there"}, {}, "cluster.certificate-authority"),
        ({"certificate-authority-data": "%%%"}, {}, "cluster.certificate-authority-data"),
        ({"certificate-authority-data": "aGVsbG8="}, {}, "cluster.certificate-authority"),
        (
            {"insecure-skip-tls-verify": True, "certificate-authority": "x"},
            {},
            "cluster.insecure-skip-tls-verify",
        ),
        ({}, {"token": f"{SECRET}\nX: y"}, "user.token"),
        ({}, {"token": f"{SECRET}\u00e4"}, "user.token"),
        ({}, {"token": SECRET, "username": "x"}, "user"),
        ({}, {"client-certificate-data": in_base64("client.crt")}, "user.client-key"),
        (
            {},
            {"client-certificate-data": in_base64("client.crt"), "client-key-data": in_base64("server.key")},
            "user.client-key",
        ),
        ({}, {"auth-provider": {"name": "gcp"}}, "user.auth-provider"),
        ({}, {"as": "someone"}, "user.as"),
        ({}, {"exec": {"command": "x", "apiVersion": "v2"}}, "user.exec.apiVersion"),
        (
            {},
            {"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1"}},
            "user.exec.interactiveMode",
        ),
    ],
)
def test_bad_setting_is_told_by_field_and_without_secrets(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], field: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        access_of(tmp_path, cluster, user)
    assert field in caught.value.field
    assert str(tmp_path / "config") in str(caught.value)
    assert SECRET not in str(caught.value)


def test_unreadable_file_is_told(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(SettingsError, match="cannot be read"):
            find_access(kubeconfig=path, environment={})


V1 = "client.authentication.k8s.io/v1"
PLUGIN = """
import json, os, sys
asked = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
count = len(open({log!r}).readlines()) + 1 if os.path.exists({log!r}) else 1
with open({log!r}, "a") as log:
    log.write(json.dumps([asked, os.environ.get("MORE"), sys.argv[1:], sys.stdin.read()]) + "\\n")
print(json.dumps({answer!r}).replace("COUNT", str(count)))
sys.exit({status})
"""


class Plugin:
    """A program that answers what a test says and writes down what it was asked."""

    def __init__(self, folder: Path, answer: Any, status: int = 0) -> None:
        self.log = folder / "log"
        self.program = write(
            folder / "plugin.py", PLUGIN.format(log=str(self.log), answer=answer, status=status)
        )
        self.user = {
            "exec": {
                "apiVersion": V1,
                "command": sys.executable,
                "args": [str(self.program), "get-token"],
                "env": [{"name": "MORE", "value": "m"}],
                "interactiveMode": "Never",
                "provideClusterInfo": True,
            }
        }

    def runs(self) -> list[Any]:
        """What each run was asked."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]


RENEWED = "t-COUNT"


def credential(**status: Any) -> dict[str, Any]:
    return {"apiVersion": V1, "kind": "ExecCredential", "status": status}


def test_plugin_is_asked_as_kubectl_asks_and_its_token_kept(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path, credential(token=RENEWED))
    access = access_of(
        tmp_path,
        {
            "certificate-authority-data": in_base64("ca.crt"),
            "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}],
        },
        plugin.user,
    )

    async def main() -> None:
        assert await asyncio.gather(*[access.authorization() for _ in range(5)]) == ["Bearer t-1"] * 5
        assert await access.refused()
        assert await access.authorization() == "Bearer t-2"

    within(20, main)
    (asked, more, arguments, typed), _ = plugin.runs()
    assert asked == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {
            "interactive": False,
            "cluster": {
                "server": "https://a.example:6443",
                "certificate-authority-data": in_base64("ca.crt"),
                "config": {"audience": "x"},
            },
        },
    }
    assert (more, arguments, typed) == ("m", ["get-token"], "")


def test_expired_token_is_renewed(tmp_path: Path) -> None:
    soon = (datetime.now(UTC) + timedelta(seconds=2)).isoformat()
    access = access_of(
        tmp_path, {}, Plugin(tmp_path, credential(token=RENEWED, expirationTimestamp=soon)).user
    )

    async def main() -> None:
        assert [await access.authorization() for _ in range(2)] == ["Bearer t-1", "Bearer t-2"]

    within(20, main)


def test_plugin_may_give_a_certificate(tmp_path: Path) -> None:
    answer = credential(
        clientCertificateData=(CERTIFICATES / "client.crt").read_text(),
        clientKeyData=(CERTIFICATES / "client.key").read_text(),
    )
    plugin = Plugin(tmp_path, answer)

    async def main() -> None:
        async with serving([OK], tls=server_tls(asks_for_client=True)) as server:
            cluster = {
                "server": f"https://127.0.0.1:{server.port}",
                "certificate-authority-data": in_base64("ca.crt"),
            }
            transport = HttpTransport(access_of(tmp_path, cluster, plugin.user))
            assert (await transport.call(Request("GET", "/"), timeout_s=5)).body == b"ok"
            await transport.close()
            assert "someone" in str(server.peer_names)

    within(20, main)


@pytest.mark.parametrize(
    ("answer", "status", "says"),
    [
        (credential(token=SECRET), 3, "ended with status 3"),
        (SECRET, 0, "did not print an ExecCredential"),
        ({"status": {"token": SECRET}}, 0, "did not print an ExecCredential of"),
        (credential(), 0, "neither a token nor a certificate"),
        (credential(clientCertificateData=SECRET), 0, "without its key"),
    ],
)
def test_plugin_that_fails_is_told_without_secrets(
    tmp_path: Path, answer: Any, status: int, says: str
) -> None:
    access = access_of(tmp_path, {}, Plugin(tmp_path, answer, status).user)
    with pytest.raises(TransportError, match=says) as caught:
        authorization(access)
    assert not caught.value.reached
    assert SECRET not in str(caught.value)


def test_plugin_that_is_not_installed_is_told_with_its_hint(tmp_path: Path) -> None:
    for command in ("no-such-program", "./no-such-program"):
        user = {
            "exec": {
                "apiVersion": V1,
                "command": command,
                "interactiveMode": "Never",
                "installHint": "Get it at the vendor.",
            }
        }
        with pytest.raises(SettingsError, match="Get it at the vendor"):
            authorization(access_of(tmp_path, {}, user))


def test_relative_command_is_found_beside_the_config(tmp_path: Path) -> None:
    answer = json.dumps(credential(token="beside"))  # noqa: S106  (of nothing)
    program = write(tmp_path / "bin" / "plugin", f"#!/bin/sh\necho '{answer}'\n")
    program.chmod(0o755)
    user = {"exec": {"apiVersion": V1, "command": "bin/plugin", "interactiveMode": "Never"}}
    assert authorization(access_of(tmp_path, {}, user)) == "Bearer beside"


def test_pod_is_its_service_account(tmp_path: Path) -> None:
    write(tmp_path / "token", "pod-token")
    write(tmp_path / "namespace", "team")
    (tmp_path / "ca.crt").write_bytes((CERTIFICATES / "ca.crt").read_bytes())
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    access = in_cluster_access(environment, folder=tmp_path)
    assert (access.endpoint.authority, access.namespace) == ("[fd00::1]", "team")
    assert authorization(access) == "Bearer pod-token"
    with pytest.raises(SettingsError, match="no pod"):
        in_cluster_access({})


def test_secrets_in_tls_errors_stay_secret(tmp_path: Path) -> None:
    key = base64.b64encode(b"-----BEGIN EC PRIVATE KEY-----\nverysecret\n").decode()
    with pytest.raises(SettingsError) as caught:
        access_of(tmp_path, {}, {"client-certificate-data": in_base64("client.crt"), "client-key-data": key})
    assert SECRET not in str(caught.value)
    assert isinstance(caught.value.__cause__, ssl.SSLError)
