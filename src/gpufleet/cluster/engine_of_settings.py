"""A new engine as the live scheduler has it with some settings."""

from gpufleet.cluster.settings import Settings
from gpufleet.engine.policy import find_policy
from gpufleet.engine.preempt.by_name import find_search
from gpufleet.engine.scheduler import Engine


def engine_of(settings: Settings) -> Engine:
    """An engine of their policy, which looks for victims as they say."""
    return Engine(find_policy(settings.policy), victims=find_search(settings.victims))
