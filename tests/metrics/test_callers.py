"""Who asks: the API server vouches with its own certificate, or a token does; anybody else is nobody."""

import asyncio
import datetime as dt
import json
from http import HTTPStatus
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from gpufleet.daemon.http_server import Accepted, Request
from gpufleet.kube.access_reviews import Attributes, User
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.localkube.access.certificates import Authority
from gpufleet.metrics.callers.request_header import (
    AuthenticationMap,
    FrontProxy,
    read_front_proxy,
    vouched_for,
)
from gpufleet.metrics.metrics_api import MetricsApi
from tests.metrics.values_at_hand import Everything, Objects, Values, served

AUTHORITY, OTHER = Authority.new("front proxy"), Authority.new("another")
NOW = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
"""Certificates of the tests are good from when they are made, which is hours after this in a long run."""
NAMES = ["front-proxy-client"]
HEADERS = (
    ("x-remote-user", "alice"),
    ("x-remote-uid", "17"),
    ("x-remote-group", "one"),
    ("x-remote-group", "two"),
    ("x-remote-extra-scopes%2fa", "read"),
    ("x-remote-extra-scopes%2fa", "write"),
)


def written(*authorities: Authority, **changed: str) -> AuthenticationMap:
    """The ConfigMap, as an API server writes it."""
    data = {
        "requestheader-client-ca-file": "".join(one.identity.certificate.decode() for one in authorities),
        "requestheader-allowed-names": json.dumps(NAMES),
        "requestheader-username-headers": '["X-Remote-User"]',
        "requestheader-uid-headers": '["X-Remote-Uid"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
    }
    return AuthenticationMap(Metadata(name="extension-apiserver-authentication"), {**data, **changed})


PROXY = read_front_proxy(written(AUTHORITY))


def shown(authority: Authority, name: str = NAMES[0]) -> bytes:
    return x509.load_pem_x509_certificate(authority.client(name).certificate).public_bytes(Encoding.DER)


def request(certificate: bytes = b"", fields: tuple[tuple[str, str], ...] = HEADERS) -> Request:
    return Request("GET", "/apis", fields, Accepted(), keep_alive=True, client_certificate=certificate)


def answered(asked: Request, rights: Everything | None = None, proxy: FrontProxy = PROXY) -> tuple[int, Any]:
    metrics_api = MetricsApi(
        served(Objects({}), Values()), rights or Everything(), lambda: proxy, lambda: NOW
    )
    page = asyncio.run(metrics_api.answer(asked))
    return page.status, json.loads(b"".join(page.parts))


def test_the_api_server_names_the_caller() -> None:
    expected = User("alice", "17", ("one", "two"), {"scopes/a": ("read", "write")})
    assert vouched_for(request(shown(AUTHORITY)), PROXY, NOW) == expected


def test_nobody_else_does() -> None:
    for certificate in (b"", shown(OTHER), shown(AUTHORITY, "kubelet")):
        assert vouched_for(request(certificate), PROXY, NOW) is None
    assert vouched_for(request(shown(AUTHORITY), ()), PROXY, NOW) is None


def test_a_certificate_that_has_ended_is_worth_nothing() -> None:
    assert vouched_for(request(shown(AUTHORITY)), PROXY, NOW + dt.timedelta(days=400)) is None


def test_without_a_list_of_names_the_authority_is_enough() -> None:
    proxy = read_front_proxy(written(AUTHORITY, **{"requestheader-allowed-names": "[]"}))
    assert vouched_for(request(shown(AUTHORITY, "any")), proxy, NOW) is not None


def test_authorities_are_renewed() -> None:
    both, new = read_front_proxy(written(AUTHORITY, OTHER)), read_front_proxy(written(OTHER))
    for proxy, old_counts in ((PROXY, True), (both, True), (new, False)):
        assert (vouched_for(request(shown(AUTHORITY)), proxy, NOW) is not None) == old_counts
    assert vouched_for(request(shown(OTHER)), new, NOW) is not None


@pytest.mark.parametrize(
    "changed",
    [
        {"requestheader-client-ca-file": "no certificate"},
        {"requestheader-client-ca-file": ""},
        {"requestheader-allowed-names": "front-proxy-client"},
        {"requestheader-username-headers": '{"X-Remote-User": 1}'},
    ],
)
def test_a_configuration_that_cannot_be_used_vouches_for_nobody_and_says_why(changed: dict[str, str]) -> None:
    proxy = read_front_proxy(written(AUTHORITY, **changed))
    assert proxy.problem
    assert vouched_for(request(shown(AUTHORITY)), proxy, NOW) is None


def test_a_token_is_as_good_and_a_wrong_one_is_nothing() -> None:
    assert answered(request(fields=(("authorization", "Bearer good"),)))[0] == HTTPStatus.OK
    for fields in ((), HEADERS, (("authorization", "Bearer bad"),), (("authorization", "Basic good"),)):
        status, document = answered(request(fields=fields))
        assert (status, document["reason"]) == (HTTPStatus.UNAUTHORIZED, "Unauthorized")


def test_whoever_may_not_is_told_what() -> None:
    path = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/team/pods/*/length?labelSelector=app"
    fields = (("authorization", "Bearer good"),)
    rights = Everything({"somebody"})
    status, document = answered(msgspec.structs.replace(request(fields=fields), target=path), rights)
    assert status == HTTPStatus.FORBIDDEN
    assert document["message"] == (
        'pods.custom.metrics.k8s.io is forbidden: User "somebody" cannot get resource "pods/length" '
        'in API group "custom.metrics.k8s.io" in the namespace "team"'
    )
    group, version = "custom.metrics.k8s.io", "v1beta2"
    assert rights.asked == [Attributes("get", "", group, version, "pods", "length", "*", "team")]


@pytest.mark.parametrize(
    ("path", "attributes"),
    [
        ("/apis", Attributes("get", "/apis")),
        (
            "/apis/external.metrics.k8s.io/v1beta1/namespaces/team/length",
            Attributes(
                "list",
                group="external.metrics.k8s.io",
                version="v1beta1",
                resource="length",
                namespace="team",
            ),
        ),
        (
            "/apis/custom.metrics.k8s.io/v1beta1/nodes/one/length",
            Attributes("get", "", "custom.metrics.k8s.io", "v1beta1", "nodes", "length", "one"),
        ),
        (
            "/apis/custom.metrics.k8s.io/v1beta1/../../secrets",
            Attributes("get", "/apis/custom.metrics.k8s.io/v1beta1/../../secrets"),
        ),
    ],
)
def test_what_a_right_is_needed_for(path: str, attributes: Attributes) -> None:
    rights = Everything()
    answered(
        msgspec.structs.replace(request(fields=(("authorization", "Bearer good"),)), target=path), rights
    )
    assert rights.asked == [attributes]


def test_whoever_is_known_is_in_the_group_of_those_and_nobody_else_gets_into_it() -> None:
    """The API server asks for discovery as a user of its own without any group."""
    assert User("system:aggregator").authenticated().groups == ("system:authenticated",)
    assert User("a", "", ("one", "system:authenticated")).authenticated().groups == (
        "one",
        "system:authenticated",
    )
    anonymous = User("system:anonymous", "", ("system:unauthenticated",))
    assert anonymous.authenticated() == anonymous
