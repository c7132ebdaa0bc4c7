"""What can go wrong with a simulated run itself; what the simulated world suffers is no error of ours."""

from gpufleet.model.model_errors import InputError, InternalError


class SimulationError(InternalError):
    """The run cannot go on: the code under test, or the simulation, is wrong."""


class DeadlockError(SimulationError):
    """Nothing is ready and nothing will ever be: every task waits for another."""


class LivelockError(SimulationError):
    """Callbacks beyond the limit ran at one instant of virtual time: they will not end."""


class ScenarioError(InputError):
    """The run that was asked for cannot be put together: no such fault, no such seed."""
