"""The label of NVIDIA's MIG Manager is carried out on a simulated node, and answered in its words."""

import json
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from gpufleet.agent.mig.labelled_layouts import LabelledLayouts
from gpufleet.agent.mig.node_layouts import LayoutsRefusedError
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.transport import Request
from gpufleet.mig.wanted import LAYOUTS_ANNOTATION
from tests.agent.mig.test_node_layouts import CutNode, on_node
from tests.mig.mig_cards import at

CONFIGS = """
version: v1
mig-configs:
  two-halves:
    - {devices: all, mig-enabled: true, mig-devices: {"3g.40gb": 2}}
  too-much:
    - {devices: all, mig-enabled: true, mig-devices: {"4g.40gb": 2}}
  of-an-a100:
    - {device-filter: "0x20B210DE", devices: all, mig-enabled: true, mig-devices: {"3g.40gb": 1}}
"""
CONFIG, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"


def state_of(node: CutNode) -> str | None:
    """What the Node's label says of the config."""
    answer = node.server.answer(Request("GET", "/api/v1/nodes/node-1"), "system:masters")
    labels: dict[str, str] = msgspec.json.decode(answer.body)["metadata"].get("labels", {})
    return labels.get(STATE)


async def ask(node: CutNode, config: str, **more: str) -> str | None:
    """What the agent answers to a label of this value; ``more`` are cards by annotation."""
    wished = {card: json.loads(layout) for card, layout in more.items()}
    annotations = {LAYOUTS_ANNOTATION: json.dumps(wished)} if wished else {}
    node.layouts.said = Metadata(labels={CONFIG: config}, annotations=annotations)
    await node.layouts.look()
    return state_of(node)


def on_labelled_node(folder: Path, story: Callable[[CutNode], Awaitable[None]]) -> None:
    """A story on a node whose agent has the file of configs."""
    file = folder / "config.yaml"
    file.write_text(CONFIGS, encoding="utf-8")

    async def tell(node: CutNode) -> None:
        node.labelled = LabelledLayouts(file)
        node.new_process()
        await story(node)

    on_node(folder, tell)


def test_configs_of_the_hardware_and_of_the_file_are_carried_out(tmp_path: Path) -> None:
    async def story(node: CutNode) -> None:
        seen: set[str | None] = set()
        node.before_call = lambda _: seen.add(state_of(node))
        assert await ask(node, "all-balanced") == "success"
        assert seen == {"pending"}
        profiles = Counter(one.profile for one in node.layout or ())
        assert profiles == {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}
        seen.clear()
        assert await ask(node, "all-balanced") == "success"
        assert not seen, "what is there is made again"
        assert await ask(node, "two-halves") == "success"
        assert node.layout == at("3g.40gb@0", "3g.40gb@4")
        assert await ask(node, "all-disabled") == "success"
        assert node.gpu.instances is None

    on_labelled_node(tmp_path, story)


def test_what_is_in_use_is_waited_for_and_stays_where_the_config_has_it(tmp_path: Path) -> None:
    async def story(node: CutNode) -> None:
        await ask(node, "all-balanced")
        large = next(one for one in node.gpu.instances or () if one.profile == "3g.40gb")
        node.take(large.uuid)
        assert await ask(node, "two-halves") == "success"
        assert large in (node.gpu.instances or ())
        assert await ask(node, "all-1g.10gb") == "pending"
        assert node.layouts.states[node.gpu.uuid].problem.startswith("mig-devices: 3g.40gb at ")
        node.holders = ()
        assert await ask(node, "all-1g.10gb") == "success"
        assert len(node.layout or ()) == 7

    on_labelled_node(tmp_path, story)


@pytest.mark.parametrize("config", ["all-blanced", "too-much", "all-2g.10gb"])
def test_what_cannot_be_has_failed_and_changes_nothing(tmp_path: Path, config: str) -> None:
    async def story(node: CutNode) -> None:
        assert await ask(node, config) == "failed"
        assert node.layout is None
        assert await ask(node, "two-halves") == "success"

    on_labelled_node(tmp_path, story)


def test_a_config_for_other_cards_is_done_at_once(tmp_path: Path) -> None:
    async def story(node: CutNode) -> None:
        assert await ask(node, "of-an-a100") == "success"
        assert node.layout is None

    on_labelled_node(tmp_path, story)


def test_the_annotation_goes_before_the_label(tmp_path: Path) -> None:
    async def story(node: CutNode) -> None:
        assert await ask(node, "two-halves", **{node.gpu.uuid: '["7g.80gb@0"]'}) == "success"
        assert node.layout == at("7g.80gb@0")

    on_labelled_node(tmp_path, story)


def test_where_the_mig_manager_reads_the_label_it_is_left_to_it(tmp_path: Path) -> None:
    async def story(node: CutNode) -> None:
        labels = {CONFIG: "two-halves", "nvidia.com/gpu.deploy.mig-manager": "true"}
        node.layouts.said = Metadata(labels=labels)
        with pytest.raises(LayoutsRefusedError, match="MIG Manager"):
            await node.layouts.look()
        assert (node.layout, state_of(node)) == (None, None)

    on_labelled_node(tmp_path, story)


def test_a_file_that_is_not_there_has_failed(tmp_path: Path) -> None:
    async def story(node: CutNode) -> None:
        (tmp_path / "config.yaml").unlink()
        assert await ask(node, "two-halves") == "failed"
        (tmp_path / "config.yaml").write_text(CONFIGS, encoding="utf-8")
        assert await ask(node, "two-halves") == "success"

    on_labelled_node(tmp_path, story)


def test_without_the_option_the_label_is_not_read(tmp_path: Path) -> None:
    async def story(node: CutNode) -> None:
        assert await ask(node, "two-halves") is None
        assert node.layout is None

    on_node(tmp_path, story)
