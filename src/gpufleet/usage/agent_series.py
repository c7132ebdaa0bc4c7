"""The series in which gpufleet's agents tell what cards do and what pods use of them, and what can be true.

The agent's exporter serves them; the terminal and the page show them, and autoscalers are told them. Values
that no card can have are none: a rule or a relabelling may put other numbers under these names.
"""

BUSY = "gpufleet_gpu_busy_ratio"
MEMORY = "gpufleet_gpu_memory_bytes"
MEMORY_USED = "gpufleet_gpu_memory_used_bytes"
POWER = "gpufleet_gpu_power_watts"
TEMPERATURE = "gpufleet_gpu_temperature_celsius"
SAMPLE_AGE = "gpufleet_gpu_sample_age_seconds"
HELD = "gpufleet_pod_gpu_held_ratio"
POD_MEMORY_USED = "gpufleet_pod_gpu_memory_used_bytes"
POD_USED = "gpufleet_pod_gpu_used_ratio"
POD_ENERGY = "gpufleet_pod_gpu_energy_joules_total"

BYTES_MAX = 2.0**53
"""Beyond any card's memory, and the last number of bytes that is told from the next one."""

POSSIBLE = {
    BUSY: (0.0, 1.0),
    MEMORY: (0.0, BYTES_MAX),
    MEMORY_USED: (0.0, BYTES_MAX),
    POWER: (0.0, 1e5),
    TEMPERATURE: (-100.0, 200.0),
    SAMPLE_AGE: (0.0, 1e9),
    HELD: (0.0, 1.0),
    POD_MEMORY_USED: (0.0, BYTES_MAX),
    POD_USED: (0.0, 1.0),
    POD_ENERGY: (0.0, 1e15),
}
"""The least and the most that each can be."""


def left_out(url: str, name: str, value: float) -> str:
    """A sentence that a server told a value which no card can have."""
    return f"{url} tells values that no GPU can have, such as {name} {value:g}; they are left out"


def is_possible(name: str, value: float) -> bool:
    """Whether a card, or a pod on it, can have this value; not a number is none."""
    least, most = POSSIBLE.get(name, (0.0, 0.0))
    return least <= value <= most
