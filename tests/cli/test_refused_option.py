"""What is refused below a command is told with the option by which the user gave it."""

import click
import pytest

from gpufleet.cli.main import ExitCode, run_program
from gpufleet.model.model_errors import InputError


def said_of(error: InputError, *words: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What a command with three options says that ends with this error."""

    @click.command()
    @click.option("--kubeconfig")
    @click.option("--kube-context")
    @click.option("--policy")
    @click.option("--gpu", multiple=True)
    def asked(**_: object) -> None:
        raise error

    assert run_program(asked, list(words), program="asked") == ExitCode.BAD_INPUT
    return capsys.readouterr().err.removeprefix("gpufleet: ").strip()


@pytest.mark.parametrize(
    ("error", "words", "said"),
    [
        (
            InputError("is no YAML", where="file.yaml", expected="a kubeconfig"),
            ["--kubeconfig", "file.yaml"],
            "--kubeconfig file.yaml: is no YAML; expected a kubeconfig",
        ),
        (
            InputError("is no YAML", field="file.yaml", expected="a kubeconfig"),
            ["--kubeconfig", "file.yaml"],
            "--kubeconfig file.yaml: is no YAML; expected a kubeconfig",
        ),
        (
            InputError("no image", where="the layout place", expected="index.json in it"),
            ["--kubeconfig", "place"],
            "--kubeconfig, the layout place: no image; expected index.json in it",
        ),
        (
            InputError("no such policy", field="policy", value="fgx", expected="fgd"),
            ["--policy", "gpufleet,fgx"],
            "--policy: no such policy, found 'fgx'; expected fgd",
        ),
        (
            InputError("no such GPU", value="T5", expected="T4"),
            ["--gpu", "A100", "--gpu", "T5"],
            "--gpu: no such GPU, found 'T5'; expected T4",
        ),
        (
            InputError("no such context", where="file", field="--context", value="b", expected="a"),
            ["--kubeconfig", "file", "--kube-context", "b"],
            "file, --kube-context: no such context, found 'b'; expected a",
        ),
    ],
)
def test_the_option_is_named_whose_text_is_refused(
    error: InputError, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said_of(error, *words, capsys=capsys) == said


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (InputError("is no YAML", where="other.yaml", expected="a manifest"), ["--kubeconfig", "file.yaml"]),
        (
            InputError("is no YAML", where="my-file.yaml", expected="a manifest"),
            ["--kubeconfig", "file.yaml"],
        ),
        (InputError("too few", field="spec.gpus", value="1", where="pod.yaml, line 3"), ["--gpu", "1"]),
        (InputError("out of range", field="--gpu", value="T5", expected="T4"), ["--gpu", "T5"]),
        (InputError("is empty", where="file.yaml", expected="a kubeconfig"), []),
    ],
)
def test_no_option_is_named_that_has_nothing_to_do_with_it(
    error: InputError, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert said_of(error, *words, capsys=capsys) == str(error)
