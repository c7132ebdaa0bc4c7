"""Which attributes a selector reads: devices that agree in these get one verdict.

And which values it needs: a device without them is never chosen.
"""

import pytest

from gpufleet.device_selectors.selector import selector


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('device.driver == "x" && device.allowMultipleAllocations', set()),
        ('device.attributes["d"].type == "gpu"', {"type"}),
        ('device.attributes["d"]["type"] == "gpu" || device.attributes["e"].model == "m"', {"type", "model"}),
        ('device.attributes["d"].?profile.orValue("") == "1g.10gb"', {"profile"}),
        ('device.attributes[?"d"].?x.orValue(1) == 1', {"x"}),
        ('has(device.attributes["d"].uuid)', {"uuid"}),
        ('"uuid" in device.attributes["d"]', {"uuid"}),
        ('device.capacity["d"].memory.compareTo(quantity("40Gi")) >= 0', {"memory"}),
        ('["a", "b"].exists(one, device.attributes["d"].type == one)', {"type"}),
    ],
)
def test_names_that_stand_in_the_text_are_all_that_it_reads(text: str, names: set[str]) -> None:
    assert selector(text).reads == frozenset(names)


@pytest.mark.parametrize(
    "text",
    [
        'device.attributes["d"].exists(name, name == "uuid")',
        'cel.bind(all, device.attributes["d"], all.type == "gpu")',
        'device.attributes[device.driver].type == "gpu"',
        '"d" in device.attributes',
        'device.attributes["d"][["type"][0]] == "gpu"',
    ],
)
def test_a_selector_that_goes_through_a_map_or_computes_a_name_may_read_any(text: str) -> None:
    assert selector(text).reads is None


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ('device.attributes["d"].uuid == "u"', {("d", "uuid", "u")}),
        ('"u" == device.attributes["d"]["uuid"]', {("d", "uuid", "u")}),
        ('device.attributes["d"].?uuid.orValue("") == "u"', {("d", "uuid", "u")}),
        (
            'device.driver == "d" && (device.attributes["d"].a == "1" && device.attributes["e"].b == "2")',
            {("d", "a", "1"), ("e", "b", "2")},
        ),
        # Each of these is also true for devices that have no such value.
        ('device.attributes["d"].?uuid.orValue("u") == "u"', set()),
        ('device.attributes["d"].uuid == "u" || device.driver == "d"', set()),
        ('!(device.attributes["d"].uuid == "u")', set()),
        ('device.attributes["d"].uuid != "u"', set()),
        ('(device.attributes["d"].uuid == "u") == false', set()),
        ('device.attributes["d"].uuid == "u" ? false : true', set()),
    ],
)
def test_values_that_a_selector_needs_are_compared_on_every_way_to_true(
    text: str, needs: set[tuple[str, str, str]]
) -> None:
    assert {tuple(one) for one in selector(text).needs} == needs
