"""The parts of the agent that give cards to claims (DRA): slices, sockets, prepared claims.

They run where a setting leaves cards to claims, or where claims that were prepared earlier still hold cards.
Otherwise none of them is there, and the agent asks nothing of ``resource.k8s.io``.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping

from gpufleet.agent.device_plugin.cdi import CdiEdits
from gpufleet.agent.device_plugin.static_devices import device_edits
from gpufleet.agent.dra.card_cutter import CardCutter
from gpufleet.agent.dra.card_delivery import NONE, OPTION, CardChoice, CardDelivery
from gpufleet.agent.dra.claim_files import ClaimFiles
from gpufleet.agent.dra.claim_preparer import ClaimPreparer, ClaimWorld
from gpufleet.agent.dra.device_health import HealthSource
from gpufleet.agent.dra.device_pools import no_root
from gpufleet.agent.dra.kubelet_plugin import DriverSocket
from gpufleet.agent.dra.made_instance_events import MadeInstanceEvents
from gpufleet.agent.dra.pcie_roots import root_above
from gpufleet.agent.dra.prepared_claims import ClaimRecord, Prepared, has_records
from gpufleet.agent.dra.slice_publisher import SlicePublisher
from gpufleet.agent.events.pod_events import PodEvents
from gpufleet.agent.kubelet_services import KubeletServices
from gpufleet.agent.machine_access import MachineAccess
from gpufleet.agent.settings import AgentSettings
from gpufleet.agent.state.node_state import Gpu, Holders, NodeGpus, NodePods
from gpufleet.agent.state.state_errors import KubeletError
from gpufleet.agent.state.topic import Topic
from gpufleet.agent.supervisor import AgentPart, said
from gpufleet.kube.client import Client
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.model_errors import InternalError

LOG = logging.getLogger(__name__)
CLAIMS = "claims"
"""The folder of prepared claims below the agent's state."""

POLL_EVERY_S = 15.0
"""How often to see whether the sockets are there: another program may have emptied the kubelet's folders."""


class ClaimServices:
    """Made before the kubelet's services, which get ``delivery.by_plugin``; ``parts`` needs them."""

    def __init__(
        self,
        settings: AgentSettings,
        choice: CardChoice,
        gpus: Topic[NodeGpus],
        access: MachineAccess,
        client: Client,
        cutter: Callable[[Prepared], CardCutter],
    ) -> None:
        self._settings = settings
        self._choice = choice
        self._gpus = gpus
        self._access = access
        self._client = client
        self._kubelet: KubeletServices | None = None
        self._holders: Topic[Holders] = Topic(())
        self._pods: Topic[NodePods] = Topic({})
        self._plugins: dict[str, DriverSocket] = {}
        prepared: Prepared = Topic({})
        root = root_above if settings.simulated is None else no_root
        self.delivery = CardDelivery(
            choice, gpus, prepared, client.clock, root, cuts=settings.dra_mig_on_demand
        )
        self.preparer = ClaimPreparer(
            client,
            ClaimWorld(
                settings.node,
                access.boot_id,
                gpus,
                self.delivery.pools,
                prepared,
                self._edits,
                self._held,
                cutter(prepared),
                MadeInstanceEvents(client, PodEvents(client, settings.node)).tell,
                access.claims_in_use,
            ),
            ClaimRecord(settings.state_folder / CLAIMS, access.disk),
            ClaimFiles(settings.cdi_folder, access.disk),
        )
        self.publisher = SlicePublisher(client, settings.node, self.delivery.pools)

    def parts(
        self, kubelet: KubeletServices, holders: Topic[Holders], pods: Topic[NodePods]
    ) -> list[AgentPart]:
        """What is to be run."""
        self._kubelet = kubelet
        self._holders, self._pods = holders, pods
        preparer, publisher = self.preparer, self.publisher
        return [
            AgentPart("prepared claims", preparer.run, lambda: said(preparer.problem)),
            AgentPart("card delivery", self._deliver),
            AgentPart("claim sockets", self._serve, self._unserved),
            AgentPart("resource slices", publisher.run, lambda: said(publisher.problem)),
        ]

    async def _deliver(self) -> None:
        """No card is offered before it is known which of them claims hold."""
        await self.preparer.loaded.wait()
        await self.delivery.run(self._holders, self._pods, lambda: self.kubelet.whole)

    async def _serve(self) -> None:
        """A driver's sockets are there as soon as it has cards or claims here, until the agent ends."""
        await self.preparer.loaded.wait()
        try:
            while True:
                changed = self.delivery.pools.changed
                for driver in self._drivers():
                    await self._keep_open(driver)
                if self._choice.is_empty:
                    await self._close_needless()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(POLL_EVERY_S):
                        await changed.wait()
        finally:
            for plugin in self._plugins.values():
                await plugin.close()
            self._plugins.clear()

    async def _keep_open(self, driver: str) -> None:
        plugin = self._plugins.get(driver)
        if plugin is None:
            health = HealthSource(self._gpus, self.delivery.pools)
            root, clock = self._settings.kubelet_root, self._client.clock
            make = self._access.claim_socket
            plugin = self._plugins[driver] = make(driver, root, self.preparer, health, clock)
        if plugin.is_there:
            return
        await plugin.close()
        try:
            await plugin.open()
        except KubeletError as error:
            plugin.problem = str(error)
            LOG.warning("claims are not served", extra={"driver": driver, "problem": plugin.problem})

    async def _close_needless(self) -> None:
        """Close the sockets of drivers whose last claim was taken back, where none is to come."""
        for driver in self._plugins.keys() - self._drivers():
            await self._plugins.pop(driver).close()

    def _drivers(self) -> set[str]:
        pools = self.delivery.pools.value or ()
        prepared = {claim.driver for claim in self.preparer.prepared.value.values()}
        return prepared | {pool.driver for pool in pools if pool.devices}

    def _unserved(self) -> tuple[str, ...]:
        found = [f"{driver}: {plugin.problem}" for driver, plugin in self._plugins.items() if plugin.problem]
        return (*found, *self._stranded()) if found else ()

    def _stranded(self) -> Iterator[str]:
        """Claims that the kubelet cannot take back because the setting took the agent's folders."""
        if self._choice.is_empty:
            for claim in self.preparer.prepared.value.values():
                yield (
                    f"{OPTION} is {NONE} while claim {claim.title} is prepared: its cards stay with it; set "
                    f"{OPTION} (agent.dra.cards) as it was until the pods of the claim have ended"
                )

    def _edits(self, gpu: Gpu, instance: str) -> CdiEdits | None:
        """A card's nodes and its driver's files, as the device plugin gives them too.

        None where files of the driver have to be there and none are.
        """
        registrar = self.kubelet.registrar
        own = device_edits(gpu.facts, instance, registrar.files)
        if gpu.facts.vendor is not Vendor.NVIDIA:
            return own
        of_driver = registrar.driver_edits(self._gpus.value)
        # A simulated machine has no driver; the device plugin tells where the machine's root is not mounted.
        if registrar.files.driver is not None and not of_driver.mounts:
            return None
        return own.and_then(of_driver)

    def _held(self) -> Mapping[DeviceId, str]:
        return self.delivery.held(self._holders.value, self._pods.value)

    @property
    def kubelet(self) -> KubeletServices:
        """The kubelet's other services. Raises InternalError before they are there."""
        if self._kubelet is None:
            raise InternalError("claims are served before the kubelet's services are there")
        return self._kubelet


def has_prepared_claims(settings: AgentSettings) -> bool:
    """Whether an earlier process prepared claims that were not taken back."""
    return has_records(settings.state_folder / CLAIMS)
