"""Of a pod with claims the answer says which devices there are for them, and what stands in the way."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gpufleet.cli.explain_output import lines
from gpufleet.cluster.claims.devices import read_devices
from gpufleet.cluster.settings import Settings
from gpufleet.cluster.watching.mirrors import CLAIM_KINDS
from gpufleet.cluster.watching.picture import Picture
from gpufleet.dra_allocation.slices import NodeFacts
from gpufleet.explain.answer import Answer, State
from gpufleet.explain.inquiry import ask
from gpufleet.kube.client import Client
from gpufleet.kube.resources import DEVICE_TAINT_RULES, RESOURCE_SLICES, Kind
from gpufleet.kube.status import Forbidden, Status
from tests.scheduler.world import World, in_world

DRIVER = "gpu.example.com"
LARGE = f'device.attributes["{DRIVER}"].model == "large"'
Object = dict[str, Any]


class WithoutSlices(Client):
    """A client whose user may not list ResourceSlices."""

    def list_pages(self, kind: Kind, *args: Any, **more: Any) -> Any:
        """Refused before the first page."""
        if kind == RESOURCE_SLICES:
            raise Forbidden(Status(403, "Forbidden", "no"))
        return super().list_pages(kind, *args, **more)


async def answer_in(world: World, name: str = "p") -> Answer:
    """Ask as an administrator does."""
    client = Client(world.transport("system:masters"), world.clock, world.random)
    return await ask(client, Settings(identity="explain"), name, "default", lambda _: None)


def of_api(kind: str, name: str, *, namespace: str = "", **more: Any) -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, **more}


def devices(world: World, node: str, *models: str, **more: Any) -> None:
    """A node with devices of these models, named d0, d1 and so on."""
    world.node(node, gpus=0)
    listed = [
        {"name": f"d{number}", "attributes": {"model": {"string": model}}, **more}
        for number, model in enumerate(models)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": listed}
    world.add(of_api("ResourceSlice", node, spec=spec))


def device_class(world: World) -> None:
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    world.add(of_api("DeviceClass", "gpu", spec={"selectors": selectors}))


def claim(world: World, name: str, *, constraints: list[Object] | None = None, **choice: Any) -> None:
    exactly = {"deviceClassName": "gpu", **choice}
    asked: Object = {"requests": [{"name": "gpus", "exactly": exactly}]}
    if constraints:
        asked["constraints"] = constraints
    world.add(of_api("ResourceClaim", name, namespace="default", spec={"devices": asked}))


def held(world: World, name: str, node: str, device: str, *, user: str) -> None:
    """A claim that has a device, for a pod."""
    claim(world, name)
    result = {"request": "gpus", "driver": DRIVER, "pool": node, "device": device}
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    selector = {"nodeSelectorTerms": [{"matchFields": fields}]}
    status = {
        "allocation": {"devices": {"results": [result]}, "nodeSelector": selector},
        "reservedFor": [{"resource": "pods", "name": user, "uid": f"{user}-uid"}],
    }
    path = f"/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/{name}/status"
    assert world.request("PATCH", path, {"status": status}) == 200


def pod(world: World, *claims: str, **more: Any) -> None:
    uses = [{"name": one, "resourceClaimName": one} for one in claims]
    world.pod("p", gpus=0, schedulerName="default-scheduler", resourceClaims=uses, **more)


def asked(build: Callable[[World], None], *, name: str = "p") -> Answer:
    """The answer in a world that is built so."""
    found: list[Answer] = []

    async def story(world: World) -> None:
        device_class(world)
        build(world)
        await world.settle()
        found.append(await answer_in(world, name))

    in_world(story)
    return found[0]


def test_the_claim_whose_end_would_help_is_named_with_its_pod() -> None:
    def build(world: World) -> None:
        devices(world, "a", "large")
        held(world, "other", "a", "d0", user="trainer")
        claim(world, "mine")
        pod(world, "mine")

    answer = asked(build)
    assert answer.state is State.FOREIGN
    assert "request gpus of claim default/mine asks for 1 device of class gpu" in answer.why
    assert "0 of 1 device of a would do: 1 is held by other claims" in answer.why
    way = "a has the devices for it when claim default/other (in use by trainer) gives back its devices"
    assert answer.way_out[0] == way
    assert [(row.reason, row.first, row.nodes) for row in answer.reasons] == [("claim-held", 1, ("a",))]
    (near,) = answer.nearest
    assert (near.lacks, near.holders) == ({"gpus": 1}, ("default/other",))


def test_the_selector_that_refuses_the_devices_is_told_and_the_nearest_node_comes_first() -> None:
    def build(world: World) -> None:
        devices(world, "a", "small", "small")
        devices(world, "b", "large", taints=[{"key": "sick", "effect": "NoSchedule"}])
        claim(world, "mine", selectors=[{"cel": {"expression": LARGE}}])
        pod(world, "mine")

    answer = asked(build)
    assert "b comes nearest" in answer.why
    assert "1 is tainted with sick:NoSchedule (d0)" in answer.why
    assert answer.way_out[0].startswith("tolerate sick:NoSchedule in request gpus")
    assert any(f"leave out the selector {LARGE}" in way for way in answer.way_out)
    assert [row.reason for row in answer.reasons] == ["claim-selector", "claim-taint"]


def test_a_rule_of_an_administrator_taints_devices_as_their_driver_does() -> None:
    rules = [
        {"taint": {"key": "drain", "effect": "NoSchedule"}, "deviceSelector": {"pool": "a", "device": "d0"}},
        {"taint": {"key": "none", "effect": "NoSchedule"}},
    ]
    picture = Picture()
    raws = [{"metadata": {"name": f"r{place}"}, "spec": rule} for place, rule in enumerate(rules)]
    watched = next(one for one in CLAIM_KINDS if one.kind == DEVICE_TAINT_RULES)
    picture.read(watched, [msgspec.Raw(msgspec.json.encode(one)) for one in raws])
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "allNodes": True, "pool": pool, "devices": [{"name": "d0"}, {"name": "d1"}]}
    slices = next(one for one in CLAIM_KINDS if one.kind == RESOURCE_SLICES)
    picture.read(slices, [msgspec.Raw(msgspec.json.encode({"metadata": {"name": "a"}, "spec": spec}))])
    (found,) = read_devices(picture).slices.pools(NodeFacts("a"))
    taints = {one.device.name: [taint.key for taint in one.device.taints] for one in found.candidates}
    assert taints == {"d0": ["drain"], "d1": []}


def test_a_constraint_that_keeps_devices_apart_is_the_way_out() -> None:
    def build(world: World) -> None:
        devices(world, "a", "small", "large")
        claim(world, "mine", count=2, constraints=[{"matchAttribute": f"{DRIVER}/model"}])
        pod(world, "mine")

    answer = asked(build)
    assert "whose devices would do one by one, and not together" in answer.why
    assert answer.way_out[0].startswith(f"leave out matchAttribute {DRIVER}/model")


def test_nodes_that_have_devices_for_the_claims_are_named() -> None:
    def build(world: World) -> None:
        devices(world, "a", "large")
        claim(world, "mine")
        pod(world, "mine")

    answer = asked(build)
    assert "1 node has devices for its claims (a)" in answer.why
    assert not answer.reasons
    assert any("its claims alone were judged" in note for note in answer.notes)


def test_devices_that_the_pod_has_already_bind_it_to_their_node() -> None:
    def build(world: World) -> None:
        devices(world, "a", "large")
        devices(world, "b", "large")
        held(world, "first", "a", "d0", user="p")
        claim(world, "second")
        pod(world, "first", "second")

    answer = asked(build)
    assert [(row.reason, row.nodes) for row in answer.reasons] == [
        ("claim-elsewhere", ("b",)),
        ("claim-held", ("a",)),
    ]
    # Nothing is a way out: the pod's own claim holds the one device of the node that it is bound to.
    assert not any("has the devices" in way for way in answer.way_out)


@pytest.mark.parametrize(
    ("uses", "why", "way"),
    [
        ({"resourceClaimName": "mime"}, "the ResourceClaim mime is not there", "did you mean mine?"),
        (
            {"resourceClaimTemplateName": "t"},
            "no claim has been made of the template t yet",
            "see whether the ResourceClaimTemplate t is there",
        ),
    ],
)
def test_a_claim_that_is_not_there_is_told(uses: Object, why: str, way: str) -> None:
    def build(world: World) -> None:
        devices(world, "a", "large")
        claim(world, "mine")
        more: Object = {"resourceClaims": [{"name": "x", **uses}], "schedulerName": "default-scheduler"}
        world.pod("p", gpus=0, **more)

    answer = asked(build)
    assert why in answer.why
    assert way in answer.way_out[0]


@pytest.mark.parametrize("owned", [True, False])
def test_a_claim_of_a_template_serves_only_the_pod_that_owns_it(owned: bool) -> None:
    def build(world: World) -> None:
        devices(world, "a", "large")
        use = {"name": "x", "resourceClaimTemplateName": "t"}
        world.pod("p", gpus=0, schedulerName="default-scheduler", resourceClaims=[use])
        uid = world.get("p")["metadata"]["uid"] if owned else "of-an-earlier-pod"
        claim(world, "p-x")
        owners = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}]
        path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/p-x"
        assert world.request("PATCH", path, {"metadata": {"ownerReferences": owners}}) == 200
        made = {"resourceClaimStatuses": [{"name": "x", "resourceClaimName": "p-x"}]}
        assert world.request("PATCH", "/api/v1/namespaces/default/pods/p/status", {"status": made}) == 200

    answer = asked(build)
    assert ("the ResourceClaim p-x was not made for this pod" in answer.why) is not owned
    assert any(way.startswith("delete the ResourceClaim p-x") for way in answer.way_out) is not owned


def test_a_class_that_is_misspelt_is_told() -> None:
    def build(world: World) -> None:
        devices(world, "a", "large")
        claim(world, "mine", deviceClassName="gqu")
        pod(world, "mine")

    answer = asked(build)
    assert "the DeviceClass gqu is not there" in answer.why
    assert answer.way_out[0] == "did you mean gpu?"


def test_a_selector_that_fails_on_a_device_fails_the_claim_everywhere() -> None:
    def build(world: World) -> None:
        devices(world, "a", "large")
        claim(world, "mine", selectors=[{"cel": {"expression": f'device.attributes["{DRIVER}"].age > 3'}}])
        pod(world, "mine")

    answer = asked(build)
    assert f"a selector fails on device {DRIVER}/a/d0" in answer.why
    assert answer.way_out[0].startswith("correct it in a new claim")


def test_devices_that_may_not_be_listed_are_not_said_to_be_missing() -> None:
    async def story(world: World) -> None:
        device_class(world)
        devices(world, "a", "large")
        claim(world, "mine")
        pod(world, "mine")
        await world.settle()
        client = WithoutSlices(world.transport("system:masters"), world.clock, world.random)
        answer = await ask(client, Settings(identity="explain"), "p", "default", lambda _: None)
        assert "its claims" not in answer.why
        assert any("you may not list resourceslices" in note for note in answer.notes)

    in_world(story)


def test_the_words_fit_on_a_screen() -> None:
    def build(world: World) -> None:
        devices(world, "a", "large")
        held(world, "other", "a", "d0", user="trainer")
        claim(world, "mine", count=2)
        pod(world, "mine")

    answer = asked(build)
    for width in (40, 120):
        assert max(map(len, lines(answer, width))) <= width
