"""Prices of catalogues, divided between GPUs and host by what the host costs without GPUs.

The instance types and prices are AWS' of us-east-1 as published: p4d.24xlarge has 96 CPUs and 1152 GiB for
32.7726 $ an hour, r5.24xlarge 96 CPUs and 768 GiB for 6.048 $.
"""

import json

import pytest

from gpufleet.ledger.price_book import Price
from gpufleet.ledger.price_files.aws_price_list import read_aws_price_list
from gpufleet.ledger.price_files.catalogues import read_gpuhunt, read_skypilot
from gpufleet.ledger.price_files.recognised import book_of, read_prices
from gpufleet.model.model_errors import InputError

SKYPILOT = """\
InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone
p4d.24xlarge,A100,8,96,1152,,32.7726,9.83178,us-east-1,us-east-1a
r5.24xlarge,,,96,768,,6.048,2.1,us-east-1,us-east-1a
m5.large,,,2,8,,0.096,0.04,us-east-1,us-east-1a
p4d.24xlarge,A100,8,96,1152,,35.39656,,eu-west-1,eu-west-1b
""".splitlines()
HOST_MICRO = 9_072_000
"""One and a half times 6.048 $, as 1152 GiB are of 768; of m5.large it would take 144 and 13.824 $."""


def by_id(prices: tuple[Price, ...]) -> dict[str, Price]:
    return {one.id: one for one in prices}


def test_the_host_costs_what_it_costs_without_gpus_and_the_gpus_cost_the_rest() -> None:
    found = read_skypilot(SKYPILOT, "vms.csv")
    price = by_id(found.prices)["skypilot:p4d.24xlarge:us-east-1:us-east-1a:on-demand"]
    assert (price.amount_micro, price.host_micro, price.currency) == (32_772_600, HOST_MICRO, "USD")
    assert (price.scope.instance_type, price.scope.zone) == ("p4d.24xlarge", "us-east-1a")


def test_spot_capacity_is_divided_by_spot_prices() -> None:
    found = by_id(read_skypilot(SKYPILOT, "vms.csv").prices)
    price = found["skypilot:p4d.24xlarge:us-east-1:us-east-1a:spot"]
    # 1.5 times 2.10 $; of m5.large it would take 144 times 0.04 $.
    assert (price.amount_micro, price.host_micro, price.scope.capacity_type) == (9_831_780, 3_150_000, "spot")


def test_a_region_without_a_plain_instance_is_left_out_and_named() -> None:
    found = read_skypilot(SKYPILOT, "vms.csv")
    assert not [one for one in found.prices if one.scope.region == "eu-west-1"]
    (note,) = found.notes
    assert "region eu-west-1 has no on-demand instance without GPUs" in note


def test_a_host_that_costs_more_than_the_node_leaves_nothing_for_gpus() -> None:
    rows = [SKYPILOT[0], "g,T4,1,96,1152,,5,,us-east-1,", SKYPILOT[2]]
    (price,) = read_skypilot(rows, "vms.csv").prices
    assert (price.gpu_micro, price.amount_micro) == (0, 5_000_000)


GPUHUNT = """\
instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size
p4d.24xlarge,us-east-1,32.7726,96,1152.0,8,A100,40.0,False,
p4d.24xlarge,us-east-1,9.83178,96,1152.0,8,A100,40.0,True,
r5.24xlarge,us-east-1,6.048,96,768.0,0,,,False,
r5.24xlarge,us-east-1,2.1,96,768.0,0,,,True,
""".splitlines()


def test_gpuhunt_gives_the_same_prices_for_a_region() -> None:
    found = read_gpuhunt(GPUHUNT, "aws.csv").prices
    hosts = {one.scope.capacity_type: one.host_micro for one in found}
    assert hosts == {"on-demand": HOST_MICRO, "spot": 3_150_000}


def price_list(**changed: str) -> bytes:
    def product(name: str, cpus: str, memory: str, gpus: str | None) -> dict[str, object]:
        told = {
            "instanceType": name,
            "vcpu": cpus,
            "memory": memory,
            "regionCode": "us-east-1",
            "tenancy": "Shared",
            "operatingSystem": "Linux",
            "preInstalledSw": "NA",
            "capacitystatus": "Used",
        }
        return {"attributes": {**told, **({} if gpus is None else {"gpu": gpus}), **changed}}

    def terms(amount: str) -> dict[str, object]:
        dimension = {"unit": "Hrs", "pricePerUnit": {"USD": amount}}
        return {"T": {"effectiveDate": "2026-01-01T00:00:00Z", "priceDimensions": {"D": dimension}}}

    products = {
        "A": product("p4d.24xlarge", "96", "1,152 GiB", "8"),
        "B": product("r5.24xlarge", "96", "768 GiB", None),
    }
    return json.dumps(
        {
            "formatVersion": "v1.0",
            "products": products,
            "terms": {"OnDemand": {"A": terms("32.7726000000"), "B": terms("6.0480000000")}},
        }
    ).encode()


def test_the_price_list_of_aws_gives_the_same_price() -> None:
    (price,) = read_aws_price_list(price_list(), "ec2.json").prices
    assert (price.amount_micro, price.host_micro) == (32_772_600, HOST_MICRO)
    assert (price.scope.instance_type, price.scope.region) == ("p4d.24xlarge", "us-east-1")


def test_other_products_of_aws_are_no_nodes() -> None:
    assert read_aws_price_list(price_list(operatingSystem="Windows"), "ec2.json").prices == ()


def test_capacity_blocks_of_aws_are_no_prices_by_the_hour() -> None:
    """Their products have all other attributes of those on demand, and an hour of 0 $."""
    found = json.loads(price_list(marketoption="OnDemand"))
    block = {**found["products"]["A"]["attributes"], "marketoption": "CapacityBlock"}
    found["products"]["C"] = {"attributes": block}
    dimension = {"unit": "Hrs", "pricePerUnit": {"USD": "1.0000000000"}}
    found["terms"]["OnDemand"]["C"] = {"T": {"priceDimensions": {"D": dimension}}}
    (price,) = read_aws_price_list(json.dumps(found).encode(), "ec2.json").prices
    assert price.amount_micro == 32_772_600


def test_an_amount_of_0_is_no_price() -> None:
    """Neither of a node, which would then be the cheapest, nor of a host, which would then cost nothing."""
    free = [SKYPILOT[1].replace("32.7726", "0").replace("9.83178", ""), "free,,,96,768,,0,,us-east-1,"]
    found = by_id(read_skypilot([*SKYPILOT[:4], *free], "vms.csv").prices)
    price = found["skypilot:p4d.24xlarge:us-east-1:us-east-1a:on-demand"]
    assert (price.amount_micro, price.host_micro) == (32_772_600, HOST_MICRO)


def test_files_are_told_by_their_headings_and_make_one_book() -> None:
    own = b"unit,amount,currency,gpu_model\nGPU-hour,2.50,USD,L4\n"
    texts = (own, "\n".join(SKYPILOT).encode(), "\n".join(GPUHUNT).encode(), price_list())
    counts = [len(read_prices(text, f"file-{number}").prices) for number, text in enumerate(texts)]
    assert counts == [1, 2, 2, 1]
    book = book_of([read_prices(texts[0], "own.csv"), read_prices(texts[1], "vms.csv")])
    assert (len(book.prices), book.currency) == (3, "USD")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "no file of prices"),
        (b"name,colour\n", "no file of prices"),
        (bytes(range(256)), "not text"),
        (b"{", "no price list"),
        (price_list(vcpu="many"), "product A, vcpu: not an amount, found 'many'"),
        (("\n".join([SKYPILOT[0], "a,b,1,x,1,,1,,r,z"])).encode(), "line 2, vCPUs: not an amount"),
        (("\n".join([SKYPILOT[0], "a,b"])).encode(), "line 2: a line of another length"),
    ],
)
def test_what_is_no_file_of_prices_is_named(text: bytes, words: str) -> None:
    with pytest.raises(InputError) as refused:
        read_prices(text, "a-file")
    assert words in str(refused.value)
