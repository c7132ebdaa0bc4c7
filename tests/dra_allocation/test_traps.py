"""What is refused or given although Kubernetes' allocator would do otherwise, and what bounds a search."""

from typing import Any

from tests.dra_allocation.questions import answer

DRIVER = "gpu.example.com"
HERE = {"nodeName": "node-1"}


def board(pool: str, driver: str, *devices: str) -> list[dict[str, Any]]:
    """A pool of parts that need the whole of one counter each."""
    at = {"name": pool, "generation": 1, "resourceSliceCount": 2}
    use = [{"counterSet": "board", "counters": {"slot": {"value": "1"}}}]
    counters: dict[str, Any] = {"sharedCounters": [{"name": "board", "counters": {"slot": {"value": "1"}}}]}
    parts: dict[str, Any] = {"devices": [{"name": name, "consumesCounters": use} for name in devices]}
    return [
        {
            "metadata": {"name": f"{driver}-{pool}-{number}"},
            "spec": {"driver": driver, "pool": at, **HERE, **of},
        }
        for number, of in enumerate((counters, parts))
    ]


def asked(slices: list[dict[str, Any]], *held: str, **choice: Any) -> dict[str, Any]:
    """A question about one device of any class; ``held`` are names of devices of the pool "a"."""
    results = [{"request": "r", "driver": DRIVER, "pool": "a", "device": name} for name in held]
    request = {"name": "r", "exactly": {"deviceClassName": "any", **choice}}
    return {
        "node": {"metadata": {"name": "node-1"}},
        "classes": [{"metadata": {"name": "any"}}],
        "slices": slices,
        "claims": [{"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}],
        "holders": [
            {"metadata": {"name": one["device"]}, "status": {"allocation": {"devices": {"results": [one]}}}}
            for one in results
        ],
        "lists": False,
        "groups": False,
    }


def devices(question: dict[str, Any]) -> list[str]:
    """The pools and devices that are given."""
    results = answer(question).get("results", [])
    return [f"{one['pool']}/{one['device']}" for each in results for one in each["devices"]["results"]]


def test_a_device_that_is_held_but_gone_from_its_slice_keeps_its_counters() -> None:
    assert devices(asked(board("a", DRIVER, "half"), "whole")) == []
    assert devices(asked(board("a", DRIVER, "half"))) == ["a/half"]


def test_counters_of_two_drivers_with_one_name_of_a_pool_are_not_mixed() -> None:
    slices = board("a", DRIVER, "half", "other-half") + board("a", "other.example.com", "port")
    assert devices(asked(slices, "half")) == ["a/port"]


def test_access_for_administration_needs_no_counters() -> None:
    assert devices(asked(board("a", DRIVER, "half"), "half", adminAccess=True)) == ["a/half"]


def test_a_no_over_many_equal_devices_needs_no_search_through_their_combinations() -> None:
    at = {"name": "a", "generation": 1, "resourceSliceCount": 1}
    many = [{"name": f"d{number}", "attributes": {"n": {"int": number % 4}}} for number in range(64)]
    slices = [{"metadata": {"name": "s"}, "spec": {"driver": DRIVER, "pool": at, **HERE, "devices": many}}]
    question = asked(slices, count=17)
    constraint = {"matchAttribute": f"{DRIVER}/n"}
    question["claims"][0]["spec"]["devices"]["constraints"] = [constraint]
    assert answer(question)["error"] == "no devices of this node serve all requests together"
    question["claims"][0]["spec"]["devices"]["requests"][0]["exactly"]["count"] = 16
    assert devices(question) == [f"a/d{number}" for number in range(0, 64, 4)]


def test_input_51_two_texts_that_only_look_alike_are_two_values() -> None:
    """One letter, and a letter with a combining accent."""
    at = {"name": "a", "generation": 1, "resourceSliceCount": 1}
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    listed = [
        {"name": name, "attributes": {"site": {"string": text}}}
        for name, text in (("d0", composed), ("d1", decomposed))
    ]
    slices = [{"metadata": {"name": "s"}, "spec": {"driver": DRIVER, "pool": at, **HERE, "devices": listed}}]
    together = asked(slices, count=2)
    together["claims"][0]["spec"]["devices"]["constraints"] = [{"matchAttribute": f"{DRIVER}/site"}]
    assert devices(together) == []
    expression = f'device.attributes["{DRIVER}"].site == "{decomposed}"'
    assert devices(asked(slices, selectors=[{"cel": {"expression": expression}}])) == ["a/d1"]
