"""AMD's own library (amdsmi), where it is installed: what the kernel's files do not tell.

The Python package comes with ROCm and loads a native library of the same release; neither is a dependency of
ours. Without it, processes are unknown and a reset goes unseen, and all else comes from the kernel's files.
"""

import contextlib
import importlib
import io
from types import ModuleType
from typing import Any, Protocol

import msgspec

from gpufleet.devices.device_errors import DriverError
from gpufleet.devices.sample import ProcessUse
from gpufleet.devices.sysfs import MIB

RESETS = {"GPU_PRE_RESET": False, "GPU_POST_RESET": True}
"""Events that say a GPU is being reset, and whether it is over."""

NO_DATA = 40
"""The library's code for a wait that ended without an event."""


class ResetSeen(msgspec.Struct, frozen=True):
    """A GPU is being reset, or, where ``over``, was."""

    pci_bus_id: str
    over: bool


class Library(Protocol):
    """What this project asks of AMD's library."""

    version: str | None

    def processes(self, pci_bus_id: str) -> tuple[ProcessUse, ...]:
        """The processes that use a GPU. Raises DriverError."""

    def wait_reset(self, limit_s: float) -> ResetSeen | None:
        """The next reset; None if there was none within the limit. Raises DriverError."""

    def close(self) -> None:
        """Let the library go."""


def load_library() -> Library | None:
    """The library; None where it is not installed or does not start."""
    try:
        # The package prints what it could not find.
        with contextlib.redirect_stdout(io.StringIO()):
            module = importlib.import_module("amdsmi")
    # The import loads the C library: a file, a symbol or a variable that is missing shows in different ways.
    except (ImportError, OSError, KeyError, AttributeError):
        return None
    try:
        module.amdsmi_init()
    except module.AmdSmiException:
        return None
    return AmdSmi(module)


class AmdSmi:
    """The library behind the facade. Handles are found again when a GPU is not among them."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.version: str | None = getattr(module, "__version__", None)
        self._handles: dict[str, Any] = {}
        self._readers: list[Any] = []

    def processes(self, pci_bus_id: str) -> tuple[ProcessUse, ...]:
        """The processes that amdsmi lists for a GPU. Raises DriverError."""
        listed = self._ask(self.module.amdsmi_get_gpu_process_list, self._handle(pci_bus_id))
        return tuple(
            ProcessUse(int(one["pid"]), int(one["memory_usage"]["vram_mem"]) // MIB) for one in listed
        )

    def wait_reset(self, limit_s: float) -> ResetSeen | None:
        """The next reset of a GPU; None if there was none within the limit. Other events are ignored."""
        if not self._readers:
            types = [self.module.AmdSmiEvtNotificationType[name] for name in RESETS]
            self._find_handles()
            self._readers = [
                self._ask(self.module.AmdSmiEventReader, handle, types) for handle in self._handles.values()
            ]
        if not self._readers:
            return None
        try:
            # One reader hears the events of all GPUs.
            seen = self._readers[0].read(int(limit_s * 1000), 1)
        except self.module.AmdSmiTimeoutException:
            return None
        except self.module.AmdSmiException as error:
            if getattr(error, "err_code", None) == NO_DATA:
                return None
            raise _failed(error) from error
        for event in seen:
            if event["event"] in RESETS:
                address = self._ask(self.module.amdsmi_get_gpu_device_bdf, event["processor_handle"])
                return ResetSeen(str(address).lower(), RESETS[event["event"]])
        return None

    def close(self) -> None:
        """Stop the readers of events and shut the library down; errors no longer matter."""
        with contextlib.suppress(DriverError):
            for reader in self._readers:
                self._ask(reader.stop)
            self._ask(self.module.amdsmi_shut_down)
        self._readers, self._handles = [], {}

    def _handle(self, pci_bus_id: str) -> Any:
        if pci_bus_id not in self._handles:
            self._find_handles()
        if pci_bus_id not in self._handles:
            raise DriverError(f"amdsmi does not know {pci_bus_id}")
        return self._handles[pci_bus_id]

    def _find_handles(self) -> None:
        handles = self._ask(self.module.amdsmi_get_processor_handles)
        self._handles = {
            str(self._ask(self.module.amdsmi_get_gpu_device_bdf, handle)).lower(): handle
            for handle in handles
        }

    def _ask(self, call: Any, *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except self.module.AmdSmiException as error:
            raise _failed(error) from error


def _failed(error: Exception) -> DriverError:
    return DriverError(f"amdsmi: {' '.join(str(error).split())}")
