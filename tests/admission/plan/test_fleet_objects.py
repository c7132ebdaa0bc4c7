"""People's own objects are judged, and pods are counted for what made them."""

from typing import Any

from gpufleet.admission.plan.fleet_objects import FleetObjects, Key

Object = dict[str, Any]
DEPLOYMENT = Key("apps", "Deployment", "team", "train")


def an_object(version: str, kind: str, name: str, owner: str = "", **more: Any) -> Object:
    metadata: Object = {"name": name, "namespace": "team"}
    if owner:
        owner_version, owner_kind, owner_name = owner.split(" ")
        reference = {"apiVersion": owner_version, "kind": owner_kind, "name": owner_name, "controller": True}
        metadata["ownerReferences"] = [reference]
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}


def objects(*bodies: Object) -> FleetObjects:
    found = FleetObjects()
    for one in bodies:
        found.add(one)
    return found


def judged(*bodies: Object) -> list[tuple[str, str]]:
    return [(key.kind, key.name) for key, _ in objects(*bodies).workloads()]


OWNED = (
    an_object("apps/v1", "Deployment", "train"),
    an_object("apps/v1", "ReplicaSet", "train-1", "apps/v1 Deployment train"),
    an_object("v1", "Pod", "train-1-a", "apps/v1 ReplicaSet train-1"),
    an_object("v1", "Pod", "train-1-b", "apps/v1 ReplicaSet train-1"),
)


def test_a_deployment_is_judged_and_not_what_it_made_in_whichever_order_they_come() -> None:
    assert judged(*OWNED) == [("Deployment", "train")]
    assert judged(*reversed(OWNED)) == [("Deployment", "train")]
    assert objects(*OWNED).pods_of() == {DEPLOYMENT: 2}


def test_a_pod_whose_owner_is_not_known_is_judged_by_itself() -> None:
    pod = an_object("v1", "Pod", "head", "example.com/v1 Cluster ray")
    assert judged(pod) == [("Pod", "head")]


def test_what_has_ended_is_left_out() -> None:
    ended = an_object("v1", "Pod", "one", status={"phase": "Succeeded"})
    condition = {"type": "Complete", "status": "True"}
    job = an_object("batch/v1", "Job", "two", status={"conditions": [condition]})
    assert judged(ended, job) == []
    assert judged(an_object("v1", "Pod", "three", status={"phase": "Running"})) == [("Pod", "three")]


def test_objects_that_control_each_other_end_no_walk() -> None:
    one = an_object("apps/v1", "ReplicaSet", "one", "apps/v1 ReplicaSet two")
    two = an_object("apps/v1", "ReplicaSet", "two", "apps/v1 ReplicaSet one")
    assert (
        sum(objects(one, two, an_object("v1", "Pod", "p", "apps/v1 ReplicaSet one")).pods_of().values()) == 1
    )


def test_where_all_pods_are_known_an_object_without_one_has_none() -> None:
    found = objects(an_object("apps/v1", "Deployment", "train"))
    assert found.pods_of() == {}
    found.knows_all_pods = True
    assert found.pods_of() == {DEPLOYMENT: 0}
