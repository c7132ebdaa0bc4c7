"""Fleets for tests of sharing, made by the simulated backend."""

from gpufleet.devices.facts import Fleet
from gpufleet.devices.simulated.backend import SimulatedBackend
from gpufleet.devices.simulated.description import read_description
from gpufleet.devices.simulated.machine import Machine


def fleet_of(*gpus: str) -> Fleet:
    """The fleet of a machine with these groups of GPUs, in YAML."""
    text = f"gpus: [{', '.join(f'{{{group}}}' for group in gpus)}]"
    return SimulatedBackend(Machine(read_description(text), lambda: 0.0, list)).fleet()
