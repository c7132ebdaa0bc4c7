"""Servers of models by their command lines and images, and which model they are to load.

Only names of the hub are models here, as ORG/NAME: a path, an address or a variable names no data that a node
could report. A line that loads a model of which the name stays open reads nothing.
"""

import re
from collections.abc import Mapping, Sequence

VLLM, SGLANG, TGI, TRTLLM, LMDEPLOY = "vllm", "sglang", "tgi", "trtllm", "lmdeploy"
_TEI, _KSERVE, _DJL = "tei", "kserve", "djl"

IMAGES = {
    VLLM: re.compile(r"vllm"),
    SGLANG: re.compile(r"sglang"),
    TGI: re.compile(r"text-generation-inference"),
    LMDEPLOY: re.compile(r"lmdeploy"),
}
COMMANDS = {
    VLLM: re.compile(r"(^|[\s/])vllm serve\b|vllm\.entrypoints\."),
    SGLANG: re.compile(r"sglang\.launch_server|(^|[\s/])sglang serve\b"),
    TGI: re.compile(r"text-generation-launcher"),
    TRTLLM: re.compile(r"(^|[\s/])trtllm-serve\b"),
    LMDEPLOY: re.compile(r"lmdeploy serve api_server"),
}
_OTHER_ENTRY = re.compile(r"\.entrypoints\.|_router|\brouter\b|\bproxy\b|\bbench\b|\bmock\b|\.py\b")
"""Words of a command that is another program of the same image."""

_MORE_IMAGES = {
    _TEI: re.compile(r"text-embeddings-inference"),
    _KSERVE: re.compile(r"huggingfaceserver"),
    _DJL: re.compile(r"djl-serving|djl-inference|huggingface-inference-toolkit"),
}
_MODEL_OPTIONS = {
    VLLM: ("model",),
    SGLANG: ("model-path", "model"),
    TGI: ("model-id",),
    _TEI: ("model-id",),
    TRTLLM: ("model",),
    LMDEPLOY: (),
    _KSERVE: ("model-id",),
    _DJL: (),
}
_REVISION_OPTIONS = {_KSERVE: "model-revision"}
_FIRST_AFTER = {
    VLLM: ("serve",),
    TRTLLM: ("trtllm-serve", "serve"),
    LMDEPLOY: ("api_server",),
}
"""Words after which the model stands without an option."""

_VARIABLES = {TGI: ("MODEL_ID",), _TEI: ("MODEL_ID",), _DJL: ("HF_MODEL_ID",)}
REVISION_VARIABLE = "REVISION"
VARIABLES = frozenset({"MODEL_ID", "HF_MODEL_ID", REVISION_VARIABLE})
"""Variables by which a server is told its model."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}")
_HUB_ADDRESS = "hf://"
WORDS_MAX = 1000
"""More words than a server is started with; a script of a shell may be of any length."""


def server_by(line: str, repository: str) -> str | None:
    """The one server that a command line or else an image stands for; None for another program."""
    for server, pattern in COMMANDS.items():
        found = pattern.findall(line)
        if found:
            # Several servers in one line of shell share the GPUs.
            return server if len(found) == 1 else None
    if _OTHER_ENTRY.search(line):
        return None
    return next((name for name, pattern in IMAGES.items() if pattern.search(repository)), None)


def model_told(words: Sequence[str], image: str, variables: Mapping[str, str]) -> str:
    """The model that a container's server loads, as ORG/NAME or ORG/NAME@REVISION; "" where none is known."""
    line = " ".join(words).split()[:WORDS_MAX]
    repository = _repository(image)
    joined = " ".join(line).replace("=", " ")
    server = server_by(joined, repository) or next(
        (name for name, pattern in _MORE_IMAGES.items() if pattern.search(repository)), None
    )
    if server is None:
        return ""
    options = _options(line)
    told = [options[one] for one in _MODEL_OPTIONS[server] if one in options]
    told += _without_option(line, server)
    told += [variables[one] for one in _VARIABLES.get(server, ()) if variables.get(one)]
    name = told[0] if told else ""
    revision = options.get(_REVISION_OPTIONS.get(server, "revision")) or variables.get(REVISION_VARIABLE, "")
    return _written(name, revision)


def model_of_address(address: str) -> str:
    """The model of KServe's ``hf://ORG/NAME:REVISION``; "" for an address of another kind."""
    if not address.startswith(_HUB_ADDRESS):
        return ""
    name, _, revision = address.removeprefix(_HUB_ADDRESS).partition(":")
    return _written(name, revision)


def started_with(told: str) -> tuple[str, ...]:
    """A command line from which ``model_told`` reads this model."""
    name, _, revision = told.partition("@")
    return (VLLM, "serve", name, *(("--revision", revision) if revision else ()))


def _written(name: str, revision: str) -> str:
    if not _NAME.fullmatch(name) or (revision and not _REVISION.fullmatch(revision)):
        return ""
    return f"{name}@{revision}" if revision else name


def _repository(image: str) -> str:
    """An image's name without digest and tag."""
    named = image.partition("@")[0]
    folder, slash, last = named.rpartition("/")
    return folder + slash + last.partition(":")[0]


def _options(words: Sequence[str]) -> dict[str, str]:
    """Options by their long names; of one that is said twice the last counts, as servers read it."""
    found: dict[str, str] = {}
    for number, word in enumerate(words):
        if not word.startswith("--"):
            continue
        name, equals, value = word[2:].partition("=")
        after = words[number + 1] if number + 1 < len(words) else ""
        found[name.replace("_", "-")] = value if equals else after
    return found


def _without_option(words: Sequence[str], server: str) -> list[str]:
    """The model where it is the first word after the command; the image of vLLM is the command itself."""
    for number, word in enumerate(words):
        if any(word == one or word.endswith(f"/{one}") for one in _FIRST_AFTER.get(server, ())):
            after = words[number + 1] if number + 1 < len(words) else ""
            if after not in _FIRST_AFTER[server]:
                return [] if after.startswith("-") else [after]
    return [words[0]] if server == VLLM and words else []
