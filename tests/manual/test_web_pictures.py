"""The pictures of the page have every document that the page's server serves."""

from manual.web_pictures import samples_of
from tests.web.sample_server import serving


def test_the_pictures_have_a_server() -> None:
    with serving(samples=samples_of(4)) as server:
        assert server.url
