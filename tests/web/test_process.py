"""The process of the page: where it may listen."""

import pytest

from gpufleet.model.model_errors import InputError
from gpufleet.web.request import Request, check


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_one_person_listens_on_the_own_machine(host: str) -> None:
    check(Request(host, 0))


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::"])  # noqa: S104  refused
def test_others_are_let_in_only_with_rights_of_their_own(host: str) -> None:
    with pytest.raises(InputError, match="everyone would see what you may see"):
        check(Request(host, 0))
    check(Request(host, 0, cluster_login=True))
