"""The requests of ours that stand in the cluster, by gang."""

from gpufleet.cluster.watching.mirrors import Cluster
from gpufleet.kube.codec.provisioning_requests import RequestState, read_request
from gpufleet.kube.objects.provisioning_requests import ProvisioningRequest
from gpufleet.kube.resources import PODS, PROVISIONING_REQUESTS
from gpufleet.model.identifiers import GangName


class KnownRequests:
    """Reads them from the mirror; each version of each once."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._read: dict[str, tuple[str, RequestState | None]] = {}

    @property
    def are_served(self) -> bool:
        """Whether the API server knows such requests."""
        return self._cluster.serves(PROVISIONING_REQUESTS)

    def by_gang(self) -> dict[GangName, list[RequestState]]:
        """All of them."""
        found: dict[GangName, list[RequestState]] = {}
        read: dict[str, tuple[str, RequestState | None]] = {}
        for one in self._cluster.all(PROVISIONING_REQUESTS):
            read[one.metadata.uid] = self._state(one)
            state = read[one.metadata.uid][1]
            if state is not None:
                found.setdefault(state.gang, []).append(state)
        self._read = read
        return found

    def newest(self, gang: GangName) -> RequestState | None:
        """The last request for the members that wait now."""
        found = [one for one in self.by_gang().get(gang, ()) if self.is_waited_for(one)]
        return max(found, key=lambda one: one.attempt, default=None)

    def is_waited_for(self, request: RequestState) -> bool:
        """Whether its gang waits still. A gang starts whole, so one owner with a node ends it.

        The mirror is asked, which is complete before anything is decided.
        """
        pods = [self._cluster.find(PODS, one.name, request.namespace) for one in request.owners]
        owned = [
            pod
            for pod, owner in zip(pods, request.owners, strict=True)
            if pod is not None and pod.metadata.uid == owner.uid and not pod.terminal
        ]
        return bool(owned) and not any(pod.spec.node_name for pod in owned)

    def _state(self, found: ProvisioningRequest) -> tuple[str, RequestState | None]:
        version = found.metadata.resource_version
        known = self._read.get(found.metadata.uid)
        return known if known is not None and known[0] == version else (version, read_request(found))
