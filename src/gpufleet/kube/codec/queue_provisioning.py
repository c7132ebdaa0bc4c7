"""How a queue's gangs ask for nodes; names and defaults are those of Kueue's ProvisioningRequestConfig."""

import msgspec

from gpufleet.kube.codec.field_path import inside
from gpufleet.kube.codec.written_words import check_length
from gpufleet.kube.objects import fleet_queues as wire
from gpufleet.model.label_syntax import is_subdomain
from gpufleet.model.model_errors import InputError

# The limits of the definition of FleetQueue, checked again: an object may be older than the definition.
MAXIMUM_PARAMETERS = 100
MAXIMUM_RETRIES = 100
MAXIMUM_PAUSE_S = 86_400


class ProvisioningTerms(msgspec.Struct, frozen=True):
    """The class that gangs ask by, its parameters, and when a request that failed is made anew, how often."""

    class_name: str
    parameters: tuple[tuple[str, str], ...] = ()
    retries_max: int = 3
    pause_first_s: int = 60
    pause_most_s: int = 1800

    def pause_s(self, attempt: int) -> int:
        """How long after the failure of this attempt, from 1 on, the next one is made."""
        return min(self.pause_most_s, self.pause_first_s << min(attempt - 1, MAXIMUM_RETRIES))


def read_provisioning(written: wire.ProvisioningSpec | None) -> ProvisioningTerms | None:
    """What the field says; None where it is not there. Raises InputError."""
    if written is None:
        return None
    with inside("provisioning"):
        name = written.provisioning_class_name
        if not is_subdomain(name):
            raise InputError(
                "not a class's name", field="provisioningClassName", value=name, expected="a DNS name"
            )
        check_length(len(written.parameters), MAXIMUM_PARAMETERS, "parameters")
        retry = written.retry_strategy
        with inside("retryStrategy"):
            return ProvisioningTerms(
                name,
                tuple(sorted(written.parameters.items())),
                _number(retry.backoff_limit_count, "backoffLimitCount", 0, MAXIMUM_RETRIES),
                _number(retry.backoff_base_seconds, "backoffBaseSeconds", 1, MAXIMUM_PAUSE_S),
                _number(retry.backoff_max_seconds, "backoffMaxSeconds", 1, MAXIMUM_PAUSE_S),
            )


def _number(value: int, field: str, least: int, most: int) -> int:
    if not least <= value <= most:
        raise InputError("out of range", field=field, value=value, expected=f"from {least} to {most}")
    return value
