"""The hub is asked only if told so, and whatever it answers is judged."""

import http.server
import json
import threading
from collections.abc import Iterator

import pytest

from gpufleet.advise.fit.ask import model_of
from gpufleet.advise.fit.hub import model_of_hub
from gpufleet.fit.facts import Origin
from gpufleet.fit.shapes import parameters
from gpufleet.model.model_errors import InputError, WorldError

TEXT = {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34}
VISION = {"hidden_size": 1152, "num_hidden_layers": 27, "intermediate_size": 4304}
FILES = {
    # As published: heads, vocabulary and sizes of heads are those of the class.
    "/google/gemma-3-4b-it/resolve/main/config.json": {
        "model_type": "gemma3",
        "text_config": {**TEXT, "sliding_window": 1024},
        "vision_config": VISION,
    },
    "/google/gemma-3-4b-it/resolve/main/model.safetensors.index.json": {
        "metadata": {"total_size": 8_600_158_944}
    },
    "/broken/one/resolve/main/config.json": ["no", "configuration"],
}


class Hub(http.server.BaseHTTPRequestHandler):
    """Serves the files above; what is gated asks for a token."""

    def do_GET(self) -> None:
        """Answer as the hub does."""
        code = 401 if self.path.startswith("/gated") else 200 if self.path in FILES else 404
        self.send_response(code)
        self.end_headers()
        if code == 200:
            self.wfile.write(json.dumps(FILES[self.path]).encode())

    def log_message(self, *_arguments: object) -> None:
        """Nothing to say."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    yield
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.usefixtures("hub")
def test_a_repository_is_read_with_what_its_class_fills_in() -> None:
    model = model_of("google/gemma-3-4b-it", from_hub=True)
    assert model.origin is Origin.HUB
    assert model.weights_bytes == 8_600_158_944
    assert parameters(model.facts) == pytest.approx(4_300_079_472, rel=0.002)


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("nobody/nothing", InputError, "no configuration"),
        ("broken/one", InputError, "config"),
        ("gated/model", WorldError, "token"),
        ("../../etc", InputError, "OWNER/NAME"),
    ],
)
def test_what_it_does_not_give_is_said(name: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        model_of_hub(name)


def test_it_is_not_asked_without_being_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    assert model_of("google/gemma-3-4b-it").origin is Origin.CATALOGUE


def test_a_hub_without_tls_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.example.org")
    with pytest.raises(InputError, match="TLS"):
        model_of_hub("google/gemma-3-4b-it")


def test_a_hub_out_of_reach_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(WorldError, match="out of reach"):
        model_of_hub("google/gemma-3-4b-it")
