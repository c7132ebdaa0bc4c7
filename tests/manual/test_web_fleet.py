"""The fleet of the pictures of the page has every document that the page's server serves."""

from manual.web_fleet import documents_of
from tests.web.sample_server import serving


def test_the_pictures_have_a_server() -> None:
    with serving(samples=documents_of(4)) as server:
        assert server.url
