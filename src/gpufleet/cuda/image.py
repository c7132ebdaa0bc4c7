"""What is known of an image: its environment, labels and history, and what they tell about CUDA.

``image_files`` reads all of that from disk; of an image that is only named there is less, and ``complete``
says so. ``requirement``, ``toolkit`` and ``architecture`` judge it.
"""

import re
from collections.abc import Mapping

import msgspec

from gpufleet.model.cuda_compatibility import Toolkit, parse_toolkit
from gpufleet.model.cuda_images import toolkit_of_image
from gpufleet.model.cuda_requirement import parse_requirement
from gpufleet.model.model_errors import InputError

CUDA_VERSION = "CUDA_VERSION"
REQUIRE_CUDA = "NVIDIA_REQUIRE_CUDA"
# Of nvidia/cuda: the version of what is inside, behind which stands the package's own.
PACKAGE_VERSIONS = ("NV_CUDA_LIB_VERSION", "NV_CUDA_CUDART_VERSION")
COMPAT_PACKAGE = "NV_CUDA_COMPAT_PACKAGE"
# Of NVIDIA's catalogue: where the compatibility libraries lie.
COMPAT_PATH = "_CUDA_COMPAT_PATH"
CUDA_LABEL = "com.nvidia.cuda.version"

_LEADING = re.compile(r"([0-9]{1,2}\.[0-9]{1,2})(?:\.([0-9]+))?(?:[.-].*)?")
_COMPAT = re.compile(r"cuda-compat-([0-9]{1,2})-([0-9]{1,2})(?![0-9])")
# Until CUDA 10 the third number of CUDA_VERSION is that of the build: 10.2.89.
_FIRST_WITH_UPDATES = 11


class StatedToolkit(msgspec.Struct, frozen=True):
    """A toolkit, and what told it."""

    toolkit: Toolkit
    by: str


class ImageFacts(msgspec.Struct, frozen=True):
    """What is known of an image.

    ``complete`` is True if the environment is all that the image has. ``source`` says in words where the
    facts come from.
    """

    name: str
    source: str = "the image's name"
    environment: Mapping[str, str] = {}
    labels: Mapping[str, str] = {}
    history: tuple[str, ...] = ()
    complete: bool = False

    def run_with(self, environment: Mapping[str, str]) -> "ImageFacts":
        """The image in a container that sets these variables; they win over the image's own."""
        return msgspec.structs.replace(self, environment={**self.environment, **environment})

    def toolkit(self) -> StatedToolkit | None:
        """The toolkit that the image was built with; None where nothing tells it."""
        plain = self.environment.get(CUDA_VERSION)
        if plain and (toolkit := _leading(plain)):
            return StatedToolkit(toolkit, f"{CUDA_VERSION}={plain}")
        for name in PACKAGE_VERSIONS:
            found = _leading(self.environment.get(name, ""))
            if found is not None:
                return StatedToolkit(Toolkit(found.major, found.minor), f"{name}={self.environment[name]}")
        label = self.labels.get(CUDA_LABEL)
        if label and (toolkit := _leading(label)):
            return StatedToolkit(toolkit, f"the label {CUDA_LABEL}={label}")
        return self._required() or self._named()

    def compatibility_package(self) -> StatedToolkit | None:
        """The package cuda-compat that the image brings; None where nothing tells of one."""
        texts = ((COMPAT_PACKAGE, self.environment.get(COMPAT_PACKAGE, "")), ("its history", self._built()))
        for by, text in texts:
            found = [Toolkit(int(major), int(minor)) for major, minor in _COMPAT.findall(text)]
            if found:
                return StatedToolkit(max(found, key=lambda one: (one.major, one.minor)), by)
        own = self.toolkit()
        if own is not None and self.environment.get(COMPAT_PATH):
            return StatedToolkit(Toolkit(own.toolkit.major, own.toolkit.minor), COMPAT_PATH)
        return None

    def _built(self) -> str:
        return "\n".join(self.history)

    def _required(self) -> StatedToolkit | None:
        try:
            toolkit = parse_requirement(self.environment.get(REQUIRE_CUDA, ""), field=REQUIRE_CUDA).toolkit()
        except InputError:
            # `requirement` tells what is wrong with it; it tells no toolkit.
            return None
        return None if toolkit is None else StatedToolkit(toolkit, REQUIRE_CUDA)

    def _named(self) -> StatedToolkit | None:
        toolkit = toolkit_of_image(self.name)
        return None if toolkit is None else StatedToolkit(toolkit, "the image's name")


def _leading(text: str) -> Toolkit | None:
    """The toolkit at the beginning of a longer version: 13.0.0.044 is 13.0.0, 10.2.89 is 10.2."""
    found = _LEADING.fullmatch(text.strip())
    toolkit = None if found is None else parse_toolkit(found[1])
    if found is None or toolkit is None:
        return None
    update = found[2]
    # A last number of several digits, or of a version before 11, is that of a build and no update.
    if update is None or len(update) > 1 or toolkit.major < _FIRST_WITH_UPDATES:
        return toolkit
    return Toolkit(toolkit.major, toolkit.minor, int(update))
