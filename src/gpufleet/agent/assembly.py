"""Makes the parts of one node's agent, and connects each to the topics that it follows.

Everything outside comes as an argument (client, settings, paths), so the whole agent runs in tests
against a simulated API server and folders of their own. ``process`` is the program around it.
"""

import os
import random
from collections.abc import Awaitable, Callable
from functools import cached_property
from pathlib import Path

from gpufleet.agent.claim_services import ClaimServices, has_prepared_claims
from gpufleet.agent.data.copy_rate import CopyRate
from gpufleet.agent.data.image_puller import ImagePuller
from gpufleet.agent.data.node_contents import NodeContents
from gpufleet.agent.data.node_data_writer import NodeDataWriter
from gpufleet.agent.data.sources.offer import DataServer
from gpufleet.agent.data.sources.store_address import checked_origin, folder_of, is_address
from gpufleet.agent.data.stager import Stager
from gpufleet.agent.data.threaded_disk import ThreadedDisk
from gpufleet.agent.data.wishes import Wishes
from gpufleet.agent.dra.card_delivery import OPTION, read_choice
from gpufleet.agent.dra.prepared_claims import Prepared
from gpufleet.agent.events.credential_events import CredentialEvents
from gpufleet.agent.events.lost_holder_events import LostHolderEvents
from gpufleet.agent.events.pod_events import PodEvents
from gpufleet.agent.events.variable_events import VariableEvents
from gpufleet.agent.events.xid_events import XidPodEvents
from gpufleet.agent.exporter.exporter import Topics
from gpufleet.agent.exporter_server import exporter, server
from gpufleet.agent.gpus.backends import partitioner
from gpufleet.agent.gpus.gpu_monitor import GpuMonitor
from gpufleet.agent.gpus.health_record import HealthRecord
from gpufleet.agent.gpus.simulated_users import SimulatedUsers
from gpufleet.agent.gpus.simulation_control import SimulationControl
from gpufleet.agent.gpus.vendor_monitor import Pace
from gpufleet.agent.kubelet.pods import Pods
from gpufleet.agent.kubelet.process_owners import pod_of
from gpufleet.agent.kubelet.runtime_images import RuntimeImages
from gpufleet.agent.kubelet_services import KubeletServices
from gpufleet.agent.labels.publisher import LabelPublisher
from gpufleet.agent.labels.storage import storage_labels
from gpufleet.agent.machine_access import MachineAccess
from gpufleet.agent.mig.card_driver import ThreadedCardDriver
from gpufleet.agent.mig.change_records import ChangesOnDisk
from gpufleet.agent.mig.claimed_places import ClaimedPlaces, CutWorld
from gpufleet.agent.mig.labelled_layouts import LabelledLayouts
from gpufleet.agent.mig.mig_manager import MigManager
from gpufleet.agent.mig.node_layouts import LayoutWorld, NodeLayouts
from gpufleet.agent.mig.states_taken_back import StatesTakenBack
from gpufleet.agent.mig.timed_driver import StepCounts, TimedDriver
from gpufleet.agent.reports.node_condition import NodeCondition
from gpufleet.agent.reports.node_devices import NodeDevicesWriter
from gpufleet.agent.reports.reported_xids import reported_xids
from gpufleet.agent.settings import AgentSettings
from gpufleet.agent.sharing.mps import MpsOptions
from gpufleet.agent.sharing.nvidia_config_maps import Place
from gpufleet.agent.sharing.sharing import Sharing, SharingSetup
from gpufleet.agent.sharing.sharing_source import SharingOptions
from gpufleet.agent.state.node_state import Held, Holders, NodePods
from gpufleet.agent.state.topic import Topic
from gpufleet.agent.supervisor import AgentPart, Supervisor, said
from gpufleet.devices.facts import GpuFacts
from gpufleet.kube.client import Client
from gpufleet.kube.expiry_watch import ExpiryWatch
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.model_errors import InputError


class Agent:
    """All parts of the agent of one node. Raises InputError for settings that cannot be."""

    def __init__(
        self,
        settings: AgentSettings,
        client: Client,
        jitter: random.Random,
        access: MachineAccess,
        expiries: ExpiryWatch | None = None,
    ) -> None:
        self.settings = settings
        self.access = access
        self.client = client
        self.expiries = expiries or ExpiryWatch(tuple, client.clock)
        self.pace = Pace(settings.sample_every_s, processes=settings.accounting)
        self.pods: Topic[NodePods] = Topic({})
        self.holders: Topic[Holders] = Topic(())
        self.sharing = Sharing(
            client,
            settings.node,
            sharing_setup(settings, access),
            self.pods,
            self.holders,
            # Asked late: the kubelet's side is made below, of what is made here.
            lambda: self.kubelet.whole,
        )
        self.monitor = self._monitor(jitter)
        self.step_counts = StepCounts()
        pods = Pods(client, settings.node, self.pods)
        choice = read_choice(settings.dra_cards)
        if settings.dra_mig_on_demand and choice.is_empty:
            problem, expected = "no card goes to claims that could be cut for them", f"{OPTION} beside it"
            raise InputError(problem, field="--dra-mig-on-demand", expected=expected)
        self.claims: ClaimServices | None = None
        self.layouts = self._node_layouts()
        gpus = self.monitor.gpus if self.layouts is None else self.layouts.offered.topic
        self.by_plugin = gpus
        """The cards that containers get from the device plugin: all that do not go to claims."""
        # Claims that were prepared under another choice keep their cards until they are taken back.
        if not choice.is_empty or has_prepared_claims(settings):
            self.claims = ClaimServices(settings, choice, gpus, access, client, self._card_cutter)
            self.by_plugin = self.claims.delivery.by_plugin
        self.kubelet = KubeletServices(
            settings, self.by_plugin, pods, self.pods, self.holders, access, client
        )
        parts = [
            *self._sharing(),
            *self._facts(),
            *self._data(),
            *self.kubelet.parts(),
            *self._claims(),
            *self._layouts(),
            *self._metrics(),
            *self._simulation(),
        ]
        self.supervisor = Supervisor(parts, client.clock, jitter)

    async def run(self) -> None:
        """Run all parts until cancelled."""
        await self.supervisor.run()

    def problems(self) -> tuple[str, ...]:
        """What is not as it should be, by part; empty where all is well."""
        return self.supervisor.problems()

    def _monitor(self, jitter: random.Random) -> GpuMonitor:
        access = self.access
        return GpuMonitor(
            self.settings.node,
            access.backends,
            self.client.clock,
            jitter,
            pace=self.pace,
            boot_id=access.boot_id,
            planner=self.sharing.source.planner,
            present=access.present,
            record=HealthRecord(self.settings.state_folder, access.boot_id, access.disk),
            remembered=lambda: reported_xids(self.client, self.settings.node, access.boot_id),
            is_for_claims=self._goes_to_claims,
        )

    def _sharing(self) -> list[AgentPart]:
        """How GPUs are shared, MPS, and, where processes can be told apart, the check of their memory."""
        sharing, mps = self.sharing, self.sharing.daemons(self.by_plugin)
        parts = [
            AgentPart("sharing", sharing.run),
            AgentPart("mps", lambda: self._divided(mps.run), lambda: mps.problems.value),
            AgentPart(
                "delivery", lambda: sharing.follow_delivery(self.kubelet.registrar, self.kubelet.files)
            ),
        ]
        if self.settings.accounting:
            parts.append(AgentPart("memory monitor", sharing.memory(self.monitor.readings).run))
        return parts

    async def _divided(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do some work once it is known which cards go to claims: daemons of the others go on until then."""
        if self.claims is not None:
            await self.claims.delivery.wait_divided()
        await work()

    async def _watch(self) -> None:
        """No GPU is shown before it is known how it is shared."""
        await self.sharing.then(self.monitor.run)

    def _facts(self) -> list[AgentPart]:
        """What the agent knows, and what it says of it to the cluster."""
        gpus = self.monitor.gpus
        condition = NodeCondition(self.client, self.settings.node, gpus)
        whole, offenders = lambda: self.kubelet.whole, self.sharing.offenders
        since = self.kubelet.registration.offered_since
        report = NodeDevicesWriter(
            self.client, self.by_plugin, self.holders, self.pods, whole, offenders, since
        )
        lost = LostHolderEvents(PodEvents(self.client, self.settings.node), self.holders)
        variables = VariableEvents(PodEvents(self.client, self.settings.node), self.pods, self.holders)
        notes = XidPodEvents(self.client, self.settings.node, gpus, self.pods, self.holders)
        credentials = CredentialEvents(self.client, self.settings.node, self.expiries)
        self.monitor.on_xid = notes.heard
        labels = LabelPublisher(
            gpus,
            self.client,
            self.client.jitter,
            namespace=self.settings.namespace,
            machine_file=self.settings.machine_type_file,
            # A simulated machine has no disks.
            storage=storage_labels if self.access.machine is None else dict,
            discovery=self.sharing.source.discovery,
        )
        return [
            AgentPart("GPU monitor", self._watch, lambda: gpus.value.problems),
            AgentPart("node devices", report.run, lambda: said(report.problem)),
            AgentPart("labels", labels.run, lambda: said(labels.problem)),
            AgentPart("Xid events", notes.run),
            AgentPart("lost holder events", lost.run),
            AgentPart("variable events", variables.run),
            AgentPart("credential events", credentials.run),
            AgentPart("node condition", condition.run, lambda: said(condition.problem)),
        ]

    def _data(self) -> list[AgentPart]:
        """What tells of models, datasets and images, and what brings those that are wanted here."""
        settings, (stores, servers) = self.settings, data_stores(self.settings)
        socket, folders, pulls = settings.runtime_socket, settings.data_read, settings.pulls
        runtime = None if socket is None else RuntimeImages(socket)
        client, copied, pulled = self.client, CopyRate(), CopyRate()
        report = NodeDataWriter(
            client,
            settings.node,
            None if runtime is None and not folders else NodeContents(folders, runtime).read,
            stages=settings.data_cache is not None,
            copy_rate=copied,
            pulls=pulls,
            pull_rate=pulled,
        )
        parts = [AgentPart("node data", report.run, lambda: said(report.problem))]
        wishes = Wishes(client, settings.node)
        if settings.data_cache is not None or pulls:
            parts.append(AgentPart("wishes for data", wishes.run))
        if settings.data_cache is not None:
            bytes_per_s = settings.data_copy_mib_per_s * (1 << 20)
            disk = ThreadedDisk(stores, settings.data_cache, bytes_per_s, client.clock, servers)
            stager = Stager(wishes, client.clock, disk, report.report_now, copied)
            parts.append(AgentPart("staging", stager.run, lambda: said(stager.problem)))
        if runtime is not None and pulls:
            allowed = settings.pull_registry
            puller = ImagePuller(wishes, runtime, allowed, client.clock, report.report_now, pulled)
            parts.append(AgentPart("pulls of images", puller.run, lambda: said(puller.problem)))
        return parts

    def _claims(self) -> list[AgentPart]:
        """What gives cards to claims, where a setting leaves them some or claims still have some."""
        return [] if self.claims is None else self.claims.parts(self.kubelet, self.holders, self.pods)

    @cached_property
    def card_driver(self) -> TimedDriver:
        """The driver's calls for MIG; only where cards may be cut an agent carries a library for it."""
        driver = ThreadedCardDriver(partitioner(self.access.machine))
        return TimedDriver(driver, self.client.clock, self.step_counts)

    @property
    def _cuts(self) -> bool:
        return self.layouts is not None or self.settings.dra_mig_on_demand

    def _node_layouts(self) -> NodeLayouts | None:
        """What brings cards to the layouts that the Node says, where a setting asks for it."""
        settings, access = self.settings, self.access
        if not settings.mig_layouts and settings.mig_config_file is None:
            return None
        file = settings.mig_config_file
        records = ChangesOnDisk(settings.state_folder, access.boot_id, access.disk)
        driver = self.card_driver
        # Asked late: the kubelet's side is made after it.
        return NodeLayouts(
            self.client,
            settings.node,
            self.monitor.gpus,
            driver,
            records,
            self._layout_world,
            None if file is None else LabelledLayouts(file),
        )

    def _layout_world(self) -> LayoutWorld:
        kubelet = self.kubelet
        return LayoutWorld(
            self.pods,
            self._held_now,
            lambda: kubelet.whole,
            self._goes_to_claims,
            kubelet.registrar.follow_now,
            self.monitor.list_anew,
        )

    def _goes_to_claims(self, card: GpuFacts) -> bool:
        return self.claims is not None and self.claims.delivery.goes_to_claims(card)

    def _card_cutter(self, prepared: Prepared) -> ClaimedPlaces:
        """What cuts cards for claims."""
        manager = MigManager(self.client, self.settings.node)
        # As the driver has them: what is withheld is withheld from the device plugin.
        world = CutWorld(self.monitor.gpus, prepared, self.monitor.list_anew, manager.obstacle)
        return ClaimedPlaces(self.card_driver, world, self.client.clock)

    async def _held_now(self) -> Holders:
        """What containers hold, and what Allocate was answered with that none has taken up yet."""
        answers = self.kubelet.memory.answers
        holders = await self.kubelet.watch.ask()
        return (*holders, *(Held("", "", "", one.resource, one.units) for one in answers))

    def _layouts(self) -> list[AgentPart]:
        layouts = self.layouts
        if layouts is None:
            taken_back = StatesTakenBack(self.client, self.settings.node)
            return [AgentPart("MIG states", taken_back.run, lambda: said(taken_back.problem))]
        return [
            AgentPart("offered GPUs", layouts.offered.run),
            AgentPart("MIG layouts", layouts.run, lambda: said(layouts.problem)),
        ]

    def _metrics(self) -> list[AgentPart]:
        """The page of metrics, and the server that sends it and answers probes."""
        settings, monitor = self.settings, self.monitor
        topics = Topics(monitor.gpus, monitor.readings, self.pods, self.holders)
        whose = pod_of if settings.accounting else None
        page = exporter(
            settings.metrics,
            topics,
            self.client.clock,
            whose,
            self.pace.stale_after_s,
            lambda: self.expiries.known,
            # Without a part that cuts cards there are no steps, not even none of them.
            lambda: self.step_counts.told() if self._cuts else {},
        )
        parts = [AgentPart("exporter", page.run)]
        if self.access.listens:
            serving = server(settings, page, self.problems, monitor.renew)
            parts.append(AgentPart("server", serving.run, lambda: said(serving.problem)))
        return parts

    def _simulation(self) -> list[AgentPart]:
        """What makes a simulated machine live, and the socket through which it is told to fail."""
        machine = self.access.machine
        if machine is None:
            return []
        machine.users = SimulatedUsers(self.monitor.gpus, self.pods, self.holders, self.access.clock_s)
        if not self.access.listens:
            return []
        return [AgentPart("simulation", SimulationControl(self.settings.state_folder, machine).run)]


def data_stores(settings: AgentSettings) -> tuple[list[Path], list[DataServer]]:
    """The folders and the servers that data comes from. Raises InputError."""
    for one in settings.data_redirect:
        checked_origin(one, "--data-redirect", one)
    folders = [folder_of(one) for one in settings.data_store if not is_address(one)]
    addresses = [one for one in settings.data_store if is_address(one)]
    authority = settings.data_certificate_authority
    if not addresses and authority is None:
        return folders, []
    # Loaded where a server is named alone: what speaks HTTP and TLS takes memory on each node.
    import ssl

    from gpufleet.agent.data.sources.servers import Server

    tls = ssl.create_default_context()
    if authority is not None:
        try:
            tls.load_verify_locations(authority)
        except (ssl.SSLError, OSError) as error:
            field, expected = "--data-certificate-authority", "a file of certificates in PEM"
            raise InputError(str(error), field=field, value=str(authority), expected=expected) from error
    return folders, [Server(one, settings.data_redirect, tls) for one in addresses]


def sharing_setup(settings: AgentSettings, access: MachineAccess) -> SharingSetup:
    """Where sharing finds its things. NVIDIA's variables go before its file, as in its plugin."""
    places = tuple(_place("--nvidia-config-map", one) for one in settings.nvidia_config_map)
    root = settings.mps_root if settings.simulated is None else settings.state_folder / "mps"
    return SharingSetup(
        settings.config,
        settings.state_folder,
        _config_map(settings),
        # A node without NVIDIA's cards needs no look at them.
        places if access.present(Vendor.NVIDIA) else (),
        settings.nvidia_config_map_every_s,
        access.other_plugins,
        SharingOptions(settings.config_default, environment=dict(os.environ), strategies=settings.strategies),
        MpsOptions(root, exclusive=settings.mps_exclusive_process),
        simulated=settings.simulated is not None,
        strategies=settings.strategies,
        disk=access.disk,
    )


def _config_map(settings: AgentSettings) -> Place | None:
    """The ConfigMap that is named. Raises InputError."""
    if not settings.config_map:
        return None
    if settings.config is not None:
        raise InputError("--config and --config-map", field="--config-map", expected="one of the two")
    return _place("--config-map", settings.config_map)


def _place(option: str, text: str) -> Place:
    """Namespace and name. Raises InputError."""
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise InputError("not a ConfigMap", field=option, value=text, expected="NAMESPACE/NAME")
    return namespace, name
