"""All that the series of one GPU are made from, at one moment."""

import msgspec

from gpufleet.agent.exporter.gpu_events import NO_EVENTS, GpuEvents
from gpufleet.agent.exporter.jobs import Jobs
from gpufleet.agent.exporter.usage import DeviceUse, PodUse
from gpufleet.agent.holders.held_parts import HeldPart, PodName
from gpufleet.agent.state.node_state import Gpu, GpuReading
from gpufleet.devices.facts import Driver
from gpufleet.devices.sample import Sample


class GpuSnapshot(msgspec.Struct, frozen=True):
    """One GPU. ``reading`` is None where there is none that is fresh.

    ``jobs`` are those of this GPU and its instances, ``events`` what happened to it. ``pod_labels`` has
    the labels that the pods on it bring along.
    """

    node: str
    gpu: Gpu
    driver: Driver | None = None
    reading: GpuReading | None = None
    held: tuple[HeldPart, ...] = ()
    uses: tuple[DeviceUse, ...] = ()
    jobs: Jobs = {}
    events: GpuEvents = NO_EVENTS
    pod_labels: dict[PodName, tuple[tuple[str, str], ...]] = {}

    @property
    def sample(self) -> Sample | None:
        """The fresh readings of the GPU itself."""
        return None if self.reading is None else self.reading.sample

    def held_of(self, instance: str | None) -> list[HeldPart]:
        """What is held of the GPU as a whole, or of an instance of it."""
        return [one for one in self.held if one.instance == instance]

    def use(self, instance: str | None, pod: PodName) -> PodUse | None:
        """What a pod uses of the GPU, or of an instance."""
        for device in self.uses:
            if (None if device.instance is None else device.instance.uuid) == instance:
                return next((one for one in device.pods if one.pod == pod), None)
        return None

    def jobs_of(self, gpu_instance: int | None) -> tuple[str, ...]:
        """The jobs on the GPU, or on an instance, which has those of its GPU if none of its own."""
        name = str(self.gpu.facts.index)
        if gpu_instance is None:
            return self.jobs.get(name, ())
        return self.jobs.get(f"{name}.{gpu_instance}") or self.jobs.get(name, ())
