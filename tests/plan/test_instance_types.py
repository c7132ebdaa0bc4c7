"""Tables of types that can be bought: what is read, and what is refused with the line and the column."""

from pathlib import Path

import pytest

from gpufleet.model.model_errors import InputError
from gpufleet.plan.instance_types import InstanceType, catalogue_of, chosen, read_catalogue, shipped

HEAD = "instance_type,gpus,gpu_model,cpus,memory_gib,price,currency"
ROW = "big,8,H100-80GB,192,2048,55.04,USD"


def test_a_line_is_a_type() -> None:
    found = read_catalogue(f"{HEAD},region,most\n{ROW},us-east-1,4\n", "own.csv")
    wanted = InstanceType(
        *("big", 8, "H100-80GB", 81_920, 192_000, 2_097_152, 55_040_000, "USD"), region="us-east-1", most=4
    )
    assert found.types == (wanted,)
    assert (found.source, found.currency) == ("own.csv", "USD")


def test_a_model_goes_by_any_of_its_names() -> None:
    line = ROW.replace("H100-80GB", "NVIDIA-H100-80GB-HBM3")
    assert read_catalogue(f"{HEAD}\n{line}\n", "own.csv").types[0].gpu_model == "H100-80GB"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("big,0,H100-80GB,192,2048,55.04,USD", "own.csv, line 2, gpus: not a number of that, found '0'"),
        (
            "big,8,H10O-80GB,192,2048,55.04,USD",
            "gpu_model: no such model of GPU, found 'H10O-80GB'; expected did",
        ),
        ("big,8,A100,192,2048,55.04,USD", "gpu_model: may mean several models, found 'A100'"),
        ("big,8,H100-80GB,many,2048,55.04,USD", "cpus: not an amount, found 'many'"),
        ("big,8,H100-80GB,192,-1,55.04,USD", "memory_gib: not an amount, found '-1'"),
        ("big,8,H100-80GB,192,2048,0,USD", "price: not an amount, found '0'; expected a number such as"),
        ("big,8,H100-80GB,192,2048,1/3,USD", "price: not an amount, found '1/3'"),
        ("big,8,H100-80GB,192,2048,55.04,dollars", "currency: not a currency, found 'dollars'"),
        ("big,8,H100-80GB,192,2048,0.0000001,USD", "price: not an amount, found '0.0000001'"),
        ("big,8,H100-80GB,192,2048,1e999999999,USD", "price: not an amount, found '1e999999999'"),
        ("a type,8,H100-80GB,192,2048,55.04,USD", "instance_type: not a type, found 'a type'"),
        ("big,8,H100-80GB", "more or fewer cells than columns"),
    ],
)
def test_a_bad_line_is_named(line: str, says: str) -> None:
    with pytest.raises(InputError) as refused:
        read_catalogue(f"{HEAD}\n{line}\n", "own.csv")
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no column instance_type"),
        (f"{HEAD}\n", "no type of instance"),
        (f"{HEAD},colour\n{ROW},red\n", "an unknown column, found 'colour'"),
        (f"{HEAD},price\n{ROW},1\n", "a column twice, found 'price'"),
        (f"{HEAD},zone\n{ROW},a zone\n", "line 2, zone: not a name, found 'a zone'"),
        (f"{HEAD}\n{ROW}\n{ROW}\n", "line 3, instance_type: named twice, found 'big'"),
        (f"{HEAD}\n{ROW}\n{ROW.replace('USD', 'EUR')}\n", "another currency, found 'EUR'; expected USD"),
    ],
)
def test_a_bad_table_is_refused(text: str, says: str) -> None:
    with pytest.raises(InputError) as refused:
        read_catalogue(text, "own.csv")
    assert says in str(refused.value)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8"):
        catalogue_of(path)


def test_the_table_that_comes_with_gpufleet_is_read() -> None:
    """The price of p5.48xlarge in us-east-1 is that of the provider's list of November 2026."""
    prices = {one.name: one.price_micro for one in shipped().types}
    assert prices["p5.48xlarge"] == 55_040_000
    assert len(prices) == 16


def test_types_are_chosen_by_name() -> None:
    assert [one.name for one in chosen(shipped(), ["g6.xlarge"]).types] == ["g6.xlarge"]
    assert chosen(shipped(), []) == shipped()
    with pytest.raises(
        InputError, match=r"no such type of instance, found 'g6.xlarg'; expected did you mean"
    ):
        chosen(shipped(), ["g6.xlarg"])
