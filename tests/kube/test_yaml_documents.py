"""Objects in a file are read in bounded depth and time, whatever stands there."""

from pathlib import Path

import pytest

from gpufleet.kube.following_access import find_access
from gpufleet.kube.kube_errors import SettingsError
from gpufleet.kube.yaml_documents import NUMBER_CHARACTERS_MAX, objects_of
from gpufleet.model.model_errors import InputError

BOMB = "\n".join(
    ["a: &a [x, x, x, x, x, x, x, x, x]"]
    + [
        f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    ]
)
ENDLESS = {
    "lists in lists, in brackets": "a: " + "[" * 100_000,
    "maps in maps, in brackets": "{a: " * 100_000,
    "lists in lists, in lines": "- " * 100_000 + "a",
    "maps in maps, in lines": "\n".join(" " * level + "a:" for level in range(1000)),
    "JSON": '{"a":' * 5000 + "1" + "}" * 5000,
    "aliases": BOMB,
    "digits": "a: " + "1" * 1_000_000,
    "digits below zero": "a: -" + "1" * 1_000_000,
    "hexadecimal": "a: 0x" + "f" * 1_000_000,
    "octal": "a: 0" + "7" * 1_000_000,
    "base 60": "a: 1" + ":1" * 200_000,
    "a fraction": "a: ." + "1" * 1_000_000,
}


@pytest.mark.parametrize("text", ENDLESS.values(), ids=ENDLESS)
def test_what_has_no_end_is_refused_with_its_file(text: str) -> None:
    with pytest.raises(InputError, match=r"^work\.yaml(, line \d+)?: .*expected"):
        objects_of(text.encode(), "work.yaml")


@pytest.mark.parametrize("text", ENDLESS.values(), ids=ENDLESS)
def test_a_kubeconfig_without_end_is_refused_too(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match="config"):
        find_access(kubeconfig=path, environment={})


@pytest.mark.parametrize("text", ["x" * 1_000_000, f'"{"1" * 1_000_000}"', "|\n  " + "1" * 1_000_000])
def test_a_long_text_is_a_text(text: str) -> None:
    (found,) = objects_of(f"a: {text}".encode(), "work.yaml")
    assert len(found["a"]) == 1_000_000


def test_the_longest_numbers_are_numbers() -> None:
    (found,) = objects_of(f"a: {'1' * NUMBER_CHARACTERS_MAX}".encode(), "work.yaml")
    assert found["a"] == int("1" * NUMBER_CHARACTERS_MAX)
