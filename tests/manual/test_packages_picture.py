"""The picture of the packages is the one that the contract of the layers gives."""

from pathlib import Path

from manual.packages_picture import PICTURE, drawn, layers
from tests.conventions.project import ROOT


def test_the_picture_in_the_documents_is_that_of_the_contract() -> None:
    assert PICTURE.read_text(encoding="utf-8") == drawn(), "python -m manual.packages_picture draws it anew"


def test_every_package_is_in_the_picture() -> None:
    packages = {Path(path).parent.name for path in (ROOT / "src" / "gpufleet").glob("*/__init__.py")}
    assert sorted(package for layer in layers() for package in layer) == sorted(packages)
