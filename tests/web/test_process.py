"""The process of the page: who may read the file with its URL, and where it may listen."""

import stat
from pathlib import Path

import pytest

from gpufleet.model.model_errors import InputError
from gpufleet.web.process import _write_private
from gpufleet.web.request import Request, check


def test_only_its_owner_may_read_the_url_also_where_a_file_was_there(tmp_path: Path) -> None:
    path = tmp_path / "url"
    path.write_text("old")
    path.chmod(0o644)
    _write_private(path, "http://127.0.0.1/login?token=x\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == "http://127.0.0.1/login?token=x\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_of_that_name_is_replaced_and_not_followed(tmp_path: Path) -> None:
    other, path = tmp_path / "other", tmp_path / "url"
    other.write_text("mine")
    path.symlink_to(other)
    _write_private(path, "new")
    assert other.read_text() == "mine"
    assert not path.is_symlink()


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--url-file"):
        _write_private(tmp_path / "no-folder" / "url", "x")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_one_person_listens_on_the_own_machine(host: str) -> None:
    check(Request(host, 0))


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::"])  # noqa: S104  refused
def test_others_are_let_in_only_with_rights_of_their_own(host: str) -> None:
    with pytest.raises(InputError, match="everyone would see what you may see"):
        check(Request(host, 0))
    check(Request(host, 0, cluster_login=True))
