"""The admission policies that gpufleet installs, as the simulated server applies them.

The guard lets the scheduler alone write a grant, or the mark of the moved pod that another replaces; the
fence refuses a Binding or an Eviction of an older epoch than the Lease's. As a real policy does, the fence
sees a Lease some milliseconds late.
"""

from typing import Any

import msgspec

from gpufleet.kube.fencing import EPOCH
from gpufleet.kube.manifests import DEFAULT_IDENTITY
from gpufleet.simulation.object_store import ObjectStore
from gpufleet.simulation.refusal import JsonObject, forbidden

GRANT = "gpufleet.io/grant"
MOVED = "gpufleet.io/moved"
GUARDED = (GRANT, MOVED)
SCHEDULER_USER = DEFAULT_IDENTITY.user
LEASE_NAMESPACE = DEFAULT_IDENTITY.namespace
LEASE_NAME = DEFAULT_IDENTITY.account
LEASES = ("coordination.k8s.io", "leases")


class Policies(msgspec.Struct):
    """Which policies are installed. ``fence_lag_s``: how late the fence learns of a new Lease."""

    guard: bool = True
    fence: bool = True
    fence_lag_s: float = 0.002
    scheduler_users: frozenset[str] = frozenset({SCHEDULER_USER})

    def check_pod(self, new: JsonObject, old: JsonObject | None, user: str) -> None:
        """The guard on pods and their subresources: what the scheduler wrote stays as it was."""
        if not self.guard or user in self.scheduler_users:
            return
        for key in GUARDED:
            before = _annotation(old["metadata"], key) if old is not None else None
            if _annotation(new["metadata"], key) != before:
                raise _denied("pods", new, "gpufleet-grant-guard", f"only the scheduler may write {key}")

    def check_binding(self, binding: JsonObject, user: str, store: ObjectStore, now_s: float) -> None:
        """The guard and the fence on Bindings."""
        grant = _grant(binding["metadata"])
        named = [key for key in GUARDED if _annotation(binding["metadata"], key) is not None]
        if self.guard and named and user not in self.scheduler_users:
            raise _denied("pods", binding, "gpufleet-grant-guard", f"only the scheduler may write {named[0]}")
        if not self.fence or grant is None:
            return
        epoch = read_epoch(grant)
        if epoch is None:
            raise _denied("pods", binding, "gpufleet-epoch-fence", "the grant names no epoch")
        current = self._lease_epoch(store, now_s)
        if current is None or epoch < current:
            words = (
                f"the grant is of epoch {epoch}, but epoch {current} leads: another scheduler has taken over"
            )
            raise _denied("pods", binding, "gpufleet-epoch-fence", words)

    def check_eviction(self, eviction: JsonObject, store: ObjectStore, now_s: float) -> None:
        """The fence on Evictions that name an epoch."""
        named = ((eviction.get("metadata") or {}).get("annotations") or {}).get(EPOCH)
        if not self.fence or named is None:
            return
        epoch = int(named)
        current = self._lease_epoch(store, now_s)
        if current is None or epoch < current:
            leads = f"epoch {current} leads: another scheduler has taken over"
            words = f"the eviction is of epoch {epoch}, but {leads}"
            raise _denied("pods", eviction, "gpufleet-epoch-fence", words)

    def _lease_epoch(self, store: ObjectStore, now_s: float) -> int | None:
        """leaseTransitions as the policy sees them now; None where there is no Lease."""
        # The newest Lease that is old enough to be known: policies read it from a cache that lags behind.
        for written in reversed(store.since(LEASES, 0, store.revision)):
            if written.name == (LEASE_NAMESPACE, LEASE_NAME) and written.at_s + self.fence_lag_s <= now_s:
                return None if written.value is None else lease_epoch(written.value)
        return None


def lease_epoch(lease: JsonObject) -> int:
    """The epoch of a Lease: how often it changed hands."""
    transitions: int = (lease.get("spec") or {}).get("leaseTransitions") or 0
    return transitions


def read_epoch(grant: str) -> int | None:
    """The epoch of a grant's text, None where it names none."""
    try:
        value: Any = msgspec.json.decode(grant)
    except msgspec.DecodeError:
        return None
    epoch = value.get("epoch") if isinstance(value, dict) else None
    # To Python a bool is an int, too.
    return epoch if isinstance(epoch, int) and not isinstance(epoch, bool) else None


def _grant(metadata: JsonObject) -> str | None:
    return _annotation(metadata, GRANT)


def _annotation(metadata: JsonObject, key: str) -> str | None:
    found: str | None = (metadata.get("annotations") or {}).get(key)
    return found


def _denied(plural: str, value: JsonObject, policy: str, words: str) -> Exception:
    told = f"ValidatingAdmissionPolicy '{policy}' with binding '{policy}' denied request: {words}"
    return forbidden("", plural, value["metadata"].get("name") or "", told)
