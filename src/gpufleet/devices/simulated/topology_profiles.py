"""The GPUs that fake-gpu-operator's built-in profiles stand for.

A profile there is the whole configuration of a mock of NVML; this is the part of each that a simulated
machine has. The figures are those of the profiles of that project's chart (from NVIDIA's k8s-test-infra
0.1.0). ``topology`` puts a pool's overrides on top.
"""

import msgspec

# In MiB, as all memory of GPUs here.
GIB = 1024


class Profile(msgspec.Struct, frozen=True):
    """What a profile says of its GPUs; ``model`` is the catalogue's name."""

    model: str
    count: int
    memory_mib: int
    reserved_mib: int
    power_limit_w: int
    driver_version: str
    cuda_version: str


PROFILES = {
    "a100": Profile("A100-40GB", 8, 40 * GIB, 583, 400, "550.163.01", "12.4"),
    "b200": Profile("B200", 8, 192 * GIB, GIB, 1000, "560.35.03", "12.6"),
    "gb200": Profile("GB200", 8, 192 * GIB, GIB, 1000, "560.35.03", "12.6"),
    "h100": Profile("H100-80GB", 8, 80 * GIB, GIB, 700, "550.163.01", "12.4"),
    "l40s": Profile("L40S", 8, 48 * GIB, 512, 350, "550.163.01", "12.4"),
    "t4": Profile("T4", 4, 16 * GIB, 300, 70, "550.163.01", "12.4"),
}
