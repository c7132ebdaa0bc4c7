"""A model's configuration and the index of its weights from a hub: fetched only where that was asked for.

Two small files of a public repository, over TLS, without a token and without following anything that is
in them. ``HF_ENDPOINT`` names another hub, as for the hub's own tools.
"""

import http.client
import os
import re
import urllib.error
import urllib.request

from gpufleet.advise.fit.local_files import CONFIG, CONFIG_BYTES_MAX, INDEX, read_index
from gpufleet.files.fetching import fetched
from gpufleet.fit.architecture import facts_of
from gpufleet.fit.facts import Origin
from gpufleet.fit.question import Model
from gpufleet.fit.spellings import read_config
from gpufleet.model.model_errors import InputError, WorldError

HUB = "https://huggingface.co"
TIMEOUT_S = 20
"""For one step of the connection; a hub that says nothing for so long is not reachable."""

TOTAL_S = 120.0
"""For the whole configuration, so that an answer byte by byte ends too."""

NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def model_of_hub(name: str) -> Model:
    """The model of a repository; raises InputError if it has none, WorldError if the hub does not answer."""
    if not NAME.fullmatch(name) or len(name) > 200:
        raise InputError("no name of a repository", field="MODEL", value=name, expected="OWNER/NAME")
    address = f"{os.environ.get('HF_ENDPOINT', HUB).rstrip('/')}/{name}/resolve/main/{CONFIG}"
    if not address.startswith(("https://", "http://localhost:", "http://127.0.0.1:")):
        raise InputError(
            "a hub is reached over TLS", field="HF_ENDPOINT", value=address, expected="https://..."
        )
    found = _fetched(address)
    if found is None:
        raise InputError("the hub has no configuration of that name", field="MODEL", value=name)
    facts = facts_of(name.partition("/")[2], read_config(found, address))
    index = _fetched(address.removesuffix(CONFIG) + INDEX)
    total = None if index is None else read_index(index, address).metadata.total_size
    weights = int(total) if total is not None and total > 0 else None
    return Model(facts, Origin.HUB, address, weights_bytes=weights, hub=name)


def _fetched(address: str) -> bytes | None:
    """The file; None if the hub has none of that name."""
    try:
        asked = urllib.request.Request(address)  # noqa: S310  checked above
        with fetched(asked, step_s=TIMEOUT_S, total_s=TOTAL_S) as answer:
            # One byte more than allowed, so that a file that is too large shows.
            body: bytes = answer.read(CONFIG_BYTES_MAX + 1)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        reason = "it asks for a token; use a file instead" if error.code in {401, 403} else f"{error.code}"
        raise WorldError(f"the hub refused {address}: {reason}") from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise WorldError(f"the hub is out of reach at {address}: {error}") from error
    if len(body) > CONFIG_BYTES_MAX:
        raise InputError("the file is too large to be what its name says", where=address)
    return body
