"""Kueue's checks by ProvisioningRequests, as what a FleetQueue says of them.

A ClusterQueue names AdmissionChecks; one of the controller of provisioning names a ProvisioningRequestConfig,
whose words are those of a FleetQueue. Other checks have no equivalent.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from gpufleet.migration.field_notes import FieldNotes
from gpufleet.migration.sources import Source

CHECK, CONFIG = "AdmissionCheck", "ProvisioningRequestConfig"
CONTROLLER = "kueue.x-k8s.io/provisioning-request"
BECOMES = "spec.provisioning"
NO_CHECKS = (
    "there are no admission checks; what it checks has to be asked of the pods, as by admission policies"
)
NO_WAIT = (
    "gangs ask by such requests, and start where all of a gang has room; Kueue waits for the condition"
    " Provisioned, and asks for single pods too"
)
ALL_FLAVORS = "the check holds for the whole queue; Kueue asks by it for work of these flavors alone"
NEXT_CHECK = "a queue asks by one class: an earlier check of this queue says which"
LOST = {
    "managedResources": "every gang asks that waits for nodes, whatever resource it lacks",
    "podSetUpdates": "pods say themselves which nodes they select; provisioned nodes are taken as others",
    "podSetMergePolicy": "pods that are alike are one kind of pods in a request",
}
_STRATEGY = "spec.admissionChecksStrategy.admissionChecks"
RETRIES = ("backoffLimitCount", "backoffBaseSeconds", "backoffMaxSeconds")


class Checks(msgspec.Struct, frozen=True):
    """AdmissionChecks and ProvisioningRequestConfigs by name."""

    checks: Mapping[str, Source]
    configs: Mapping[str, Source]

    def provisioning_of(self, queue: Source, notes: FieldNotes) -> dict[str, Any] | None:
        """What the queue's gangs ask by; None where no check of it is about provisioning."""
        found: dict[str, Any] | None = None
        for field, name, flavors in _names(queue):
            check = self.checks.get(name)
            if check is None:
                notes.lost(queue, field, f"there is no AdmissionCheck {name} among these objects")
            elif check.text("spec", "controllerName") != CONTROLLER:
                notes.lost(queue, field, NO_CHECKS)
            elif found is not None:
                notes.lost(queue, field, NEXT_CHECK)
            else:
                config = self.configs.get(check.text("spec", "parameters", "name"))
                if config is None:
                    notes.lost(queue, field, f"the {CONFIG} of {name} is not among these objects")
                else:
                    found = _provisioning(config)
                    notes.approximated(queue, field, BECOMES, NO_WAIT)
                    if flavors:
                        notes.approximated(queue, f"{_STRATEGY}[{name}].onFlavors", BECOMES, ALL_FLAVORS)
        return found

    def note_fields(self, notes: FieldNotes) -> None:
        """What became of the fields of checks and configs themselves."""
        for check in self.checks.values():
            if check.text("spec", "controllerName") == CONTROLLER:
                notes.honoured(check, "spec.controllerName", BECOMES)
                if check.get("spec", "parameters") is not None:
                    notes.honoured(check, "spec.parameters", BECOMES)
            else:
                notes.lost(check, "spec.controllerName", NO_CHECKS)
                if check.get("spec", "parameters") is not None:
                    notes.lost(check, "spec.parameters", NO_CHECKS)
            notes.finish(check)
        for config in self.configs.values():
            notes.honoured(config, "spec.provisioningClassName", f"{BECOMES}.provisioningClassName")
            for name in ("parameters", "retryStrategy"):
                if config.get("spec", name) is not None:
                    notes.honoured(config, f"spec.{name}", f"{BECOMES}.{name}")
            for name, reason in LOST.items():
                if config.get("spec", name) is not None:
                    notes.lost(config, f"spec.{name}", reason)
            notes.finish(config)


def checks_of(checks: Iterable[Source], configs: Iterable[Source]) -> Checks:
    """The checks of a set of objects."""
    return Checks({one.name: one for one in checks}, {one.name: one for one in configs})


def _names(queue: Source) -> list[tuple[str, str, bool]]:
    """The checks of a queue, each with its field, and whether it is about some flavors alone."""
    found = [("spec.admissionChecks", str(name), False) for name in queue.items("spec", "admissionChecks")]
    for one in queue.items("spec", "admissionChecksStrategy", "admissionChecks"):
        if not isinstance(one, dict):
            raise queue.error("not a list of maps", _STRATEGY, one, "a list of maps")
        flavors = one.get("onFlavors")
        if flavors is not None and not isinstance(flavors, list):
            field = f"{_STRATEGY}[{one.get('name')}].onFlavors"
            raise queue.error("not a list", field, flavors, "a list of names of ResourceFlavors")
        found.append(("spec.admissionChecksStrategy", str(one.get("name")), bool(flavors)))
    return found


def _provisioning(config: Source) -> dict[str, Any]:
    found: dict[str, Any] = {"provisioningClassName": config.text("spec", "provisioningClassName")}
    if parameters := config.mapping("spec", "parameters"):
        found["parameters"] = parameters
    retry = {name: config.number("spec", "retryStrategy", name) for name in RETRIES}
    if any(value is not None for value in retry.values()):
        found["retryStrategy"] = {name: value for name, value in retry.items() if value is not None}
    return found
