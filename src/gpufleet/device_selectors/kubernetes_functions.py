"""Functions that Kubernetes adds: quantities, versions, addresses, networks and URLs.

Definitions: Kubernetes, apiserver/pkg/cel/library; costs: cost.go there.
"""

import ipaddress
import math
import re
from collections.abc import Callable, Sequence
from urllib.parse import SplitResult, parse_qs, quote, urlsplit

from gpufleet.device_selectors.cel_errors import EvaluationError
from gpufleet.device_selectors.functions import TRAVERSAL_COST, Overload, function, method, traversal
from gpufleet.device_selectors.types import (
    BOOL,
    CIDR,
    DOUBLE,
    INT,
    IP,
    QUANTITY,
    STRING,
    URL,
    VERSION,
    list_of,
    map_of,
)
from gpufleet.device_selectors.values import (
    INT_MAXIMUM,
    INT_MINIMUM,
    Cidr,
    Ip,
    Url,
    Value,
    Version,
    size,
)
from gpufleet.model.model_errors import InputError
from gpufleet.model.quantity import NANO_PER_UNIT, Quantity, parse_quantity


def _readable(read: Callable[..., Value]) -> Callable[..., bool]:
    def does(*arguments: Value) -> bool:
        try:
            read(*arguments)
        except EvaluationError:
            return False
        return True

    return does


def _quantity(text: str) -> Quantity:
    try:
        return parse_quantity(text)
    except InputError as error:
        raise EvaluationError(str(error)) from None


def _compared(left: Quantity, right: Quantity) -> int:
    return (left.nano > right.nano) - (left.nano < right.nano)


def _integer(quantity: Quantity) -> int:
    whole, rest = divmod(quantity.nano, NANO_PER_UNIT)
    if rest or not INT_MINIMUM <= whole <= INT_MAXIMUM:
        raise EvaluationError("cannot convert value to integer")
    return whole


def _plus(left: Quantity, right: Quantity | int, sign: int = 1) -> Quantity:
    more = right.nano if isinstance(right, Quantity) else right * NANO_PER_UNIT
    return Quantity(left.nano + sign * more, left.notation)


_QUANTITIES: tuple[Overload, ...] = (
    function("quantity", (STRING,), QUANTITY, _quantity, traversal()),
    function("isQuantity", (STRING,), BOOL, _readable(_quantity), traversal()),
    function("sign", (QUANTITY,), INT, lambda a: (a.nano > 0) - (a.nano < 0)),
    method("isGreaterThan", (QUANTITY, QUANTITY), BOOL, lambda a, b: a.nano > b.nano),
    method("isLessThan", (QUANTITY, QUANTITY), BOOL, lambda a, b: a.nano < b.nano),
    method("compareTo", (QUANTITY, QUANTITY), INT, _compared),
    method("asApproximateFloat", (QUANTITY,), DOUBLE, lambda a: a.nano / NANO_PER_UNIT),
    method("asInteger", (QUANTITY,), INT, _integer),
    method("isInteger", (QUANTITY,), BOOL, _readable(_integer)),
    method("add", (QUANTITY, QUANTITY), QUANTITY, _plus),
    method("add", (QUANTITY, INT), QUANTITY, _plus),
    method("sub", (QUANTITY, QUANTITY), QUANTITY, lambda a, b: _plus(a, b, -1)),
    method("sub", (QUANTITY, INT), QUANTITY, lambda a, b: _plus(a, b, -1)),
)


def _version(text: str, is_normalized: bool = False) -> Version:
    try:
        return Version.parse_normalized(text) if is_normalized else Version.parse(text)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


_VERSIONS: tuple[Overload, ...] = (
    function("semver", (STRING,), VERSION, _version, traversal()),
    function("semver", (STRING, BOOL), VERSION, _version, traversal()),
    function("isSemver", (STRING,), BOOL, _readable(_version), traversal()),
    function("isSemver", (STRING, BOOL), BOOL, _readable(_version), traversal()),
    method("isGreaterThan", (VERSION, VERSION), BOOL, lambda a, b: a.compare(b) > 0),
    method("isLessThan", (VERSION, VERSION), BOOL, lambda a, b: a.compare(b) < 0),
    method("compareTo", (VERSION, VERSION), INT, lambda a, b: a.compare(b)),
    method("major", (VERSION,), INT, lambda a: a.major),
    method("minor", (VERSION,), INT, lambda a: a.minor),
    method("patch", (VERSION,), INT, lambda a: a.patch),
)


def _address(text: str) -> Ip:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        raise EvaluationError(f"IP Address {text!r} parse error during conversion from string") from None
    if found.version == 6 and (found.ipv4_mapped is not None or found.scope_id is not None):
        raise EvaluationError(f"IPv4-mapped IPv6 address {text!r} is not allowed")
    return Ip(found)


def _network(text: str) -> Cidr:
    address, slash, length = text.partition("/")
    if not slash or not re.fullmatch(r"0|[1-9]\d*", length):
        raise EvaluationError(f"network address parse error during conversion from string: {text!r}")
    _address(address)
    try:
        return Cidr(ipaddress.ip_interface(text))
    except ValueError:
        raise EvaluationError(
            f"network address parse error during conversion from string: {text!r}"
        ) from None


def _has_address(network: Cidr, address: Ip | str) -> bool:
    one = _address(address) if isinstance(address, str) else address
    return one.address in network.address.network


def _has_network(network: Cidr, other: Cidr | str) -> bool:
    inner = _network(other) if isinstance(other, str) else other
    one, two = network.address.network, inner.address.network
    return one.version == two.version and two.subnet_of(one)  # type: ignore[arg-type]  # of one version


def _has_address_cost(arguments: Sequence[Value], _result: Value) -> int:
    found = math.ceil(2 * size(arguments[0]) * TRAVERSAL_COST)
    return found + (math.ceil(size(arguments[1]) * TRAVERSAL_COST) if isinstance(arguments[1], str) else 0)


def _has_network_cost(arguments: Sequence[Value], result: Value) -> int:
    return _has_address_cost(arguments, result) + math.ceil(size(arguments[0]) * TRAVERSAL_COST) + 1


def _is_canonical(text: str) -> bool:
    return str(_address(text).address) == text


_LOCAL_MULTICAST_4 = ipaddress.ip_network("224.0.0.0/24")
_LOCAL_MULTICAST_6 = ipaddress.ip_network("ff02::/16")


def _is_local_multicast(one: Ip) -> bool:
    networks = (_LOCAL_MULTICAST_4, _LOCAL_MULTICAST_6)
    return any(one.address.version == network.version and one.address in network for network in networks)


def _is_global(one: Ip) -> bool:
    address = one.address
    is_broadcast = str(address) == "255.255.255.255"
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
        or is_broadcast
    )


_NETWORKS: tuple[Overload, ...] = (
    function("ip", (STRING,), IP, _address, traversal()),
    method("ip", (CIDR,), IP, lambda a: Ip(a.address.ip)),
    function("ip.isCanonical", (STRING,), BOOL, _is_canonical, traversal(2 * TRAVERSAL_COST)),
    function("isIP", (STRING,), BOOL, _readable(_address), traversal()),
    method("family", (IP,), INT, lambda a: a.address.version),
    method("isUnspecified", (IP,), BOOL, lambda a: a.address.is_unspecified),
    method("isLoopback", (IP,), BOOL, lambda a: a.address.is_loopback),
    method("isLinkLocalMulticast", (IP,), BOOL, _is_local_multicast),
    method("isLinkLocalUnicast", (IP,), BOOL, lambda a: a.address.is_link_local),
    method("isGlobalUnicast", (IP,), BOOL, _is_global),
    function("string", (IP,), STRING, lambda a: str(a.address)),
    function("cidr", (STRING,), CIDR, _network, traversal()),
    function("isCIDR", (STRING,), BOOL, _readable(_network), traversal()),
    method("containsIP", (CIDR, IP), BOOL, _has_address, _has_address_cost),
    method("containsIP", (CIDR, STRING), BOOL, _has_address, _has_address_cost),
    method("containsCIDR", (CIDR, CIDR), BOOL, _has_network, _has_network_cost),
    method("containsCIDR", (CIDR, STRING), BOOL, _has_network, _has_network_cost),
    method("masked", (CIDR,), CIDR, lambda a: Cidr(ipaddress.ip_interface(a.address.network))),
    method("prefixLength", (CIDR,), INT, lambda a: a.address.network.prefixlen),
    function("string", (CIDR,), STRING, lambda a: str(a.address)),
)


def _url(text: str) -> Url:
    # As Go's ParseRequestURI: an absolute URL or an absolute path.
    try:
        parts = urlsplit(text)
        # Python reads the port only when it is asked for, and refuses a wrong one only then.
        _ = parts.port
    except ValueError as error:
        raise EvaluationError(f"URL parse error during conversion from string: {error}") from None
    is_blank = any(letter < " " or letter == "\x7f" for letter in text) or " " in parts.netloc
    if not (parts.scheme or text.startswith("/")) or is_blank:
        raise EvaluationError(
            f"URL parse error during conversion from string: invalid URI for request: {text!r}"
        )
    return Url(text, parts)


_PATH_SAFE = "/%:@!$&'()*+,;=~"
"""What Go leaves as it is in the path of a URL."""


def _host(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]


def _query(url: Url) -> dict[str, list[str]]:
    return parse_qs(url.parts.query, keep_blank_values=True)


_URLS: tuple[Overload, ...] = (
    function("url", (STRING,), URL, _url, traversal()),
    function("isURL", (STRING,), BOOL, _readable(_url)),
    method("getScheme", (URL,), STRING, lambda a: a.parts.scheme),
    method("getHost", (URL,), STRING, lambda a: _host(a.parts)),
    method("getHostname", (URL,), STRING, lambda a: a.parts.hostname or ""),
    method("getPort", (URL,), STRING, lambda a: str(a.parts.port or "")),
    method("getEscapedPath", (URL,), STRING, lambda a: quote(a.parts.path, safe=_PATH_SAFE)),
    method("getQuery", (URL,), map_of(STRING, list_of(STRING)), _query),
)

KUBERNETES_FUNCTIONS: tuple[Overload, ...] = (*_QUANTITIES, *_VERSIONS, *_NETWORKS, *_URLS)
