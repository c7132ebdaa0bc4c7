"""The kubelet counts slots while some card is shared by fractions, and none otherwise."""

import asyncio
from pathlib import Path

from gpufleet.agent.device_plugin.kubelet_link import GrpcKubeletLink
from gpufleet.agent.device_plugin.registration import KubeletRegistration
from gpufleet.agent.device_plugin.share_slot_registrar import ShareSlotRegistrar
from gpufleet.devices.sharing.plan import Exclusive, Fractions
from gpufleet.kube.clock import MachineClock
from tests.agent.node_values import SHARE, a_gpu, a_node, a_share
from tests.agent.share_world import SharedNode
from tests.agent.small_kubelet import SmallKubelet


def test_slots_are_offered_allocated_and_prepared_over_the_kubelets_socket(folder: Path) -> None:
    async def story() -> None:
        sockets = folder / "sockets"
        sockets.mkdir()
        kubelet = SmallKubelet(sockets)
        await kubelet.start()
        node = SharedNode(folder, a_gpu("GPU-0", Fractions(3)))
        registration = KubeletRegistration(MachineClock(), GrpcKubeletLink(sockets))
        registrar = ShareSlotRegistrar(node.allocator, registration, node.gpus, node.holders)
        work = [asyncio.create_task(one.run()) for one in (registration, registrar)]
        try:
            await kubelet.sees(SHARE, ["share-0", "share-1", "share-2"])
            assert kubelet.registered[-1].options.pre_start_required
            node.bind("a", main=(a_share("GPU-0", 250),))
            given = await kubelet.allocate(SHARE, ["share-1"])
            assert [one.name for one in given.cdi_devices] == [f"gpufleet.io/share={1:032x}"]
            node.gpus.publish(a_node(a_gpu("GPU-0", Exclusive())))
            await kubelet.sees(SHARE, [])
        finally:
            for one in work:
                one.cancel()
            await asyncio.gather(*work, return_exceptions=True)
            await kubelet.stop()

    asyncio.run(story())
