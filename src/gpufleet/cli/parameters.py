"""What options and arguments take: numbers, words, files and folders, each checked before its command runs.

Every parameter of every command is of one of these types, or a text whose bad values are listed in
``tests/cli/bad_texts.py``. A refusal names the option, what stood there, and what is expected: the whole
range, all words and the nearest of them, the nearest file that is there. Numbers have an upper bound, so that
none makes a command run or grow without end.
"""

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import click

from gpufleet.model.model_errors import InputError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from gpufleet.ledger.database.address import DatabaseAddress
    from gpufleet.model.labels import LabelSelector

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
STANDARD_STREAM = "-"
"""Standard input or output on a command line."""


def name_of(parameter: click.Parameter | None) -> str:
    """What the user calls the parameter: ``--nodes``, or ``LOG`` for an argument."""
    if parameter is None:
        return ""
    if isinstance(parameter, click.Option):
        # The long form: help and documents name options by it.
        return max(parameter.opts, key=len)
    return (parameter.metavar or str(parameter.name).upper()).strip("[].")


class Whole(click.IntRange):
    """A whole number between two others."""

    def __init__(self, least: int, most: int) -> None:
        super().__init__(least, most)
        self.expected = f"a whole number from {least:,} to {most:,}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:  # noqa: ARG002
        """The number. Raises InputError."""
        text = str(value).strip()
        # More digits are beyond every range, and int() takes long over thousands of them.
        if _WHOLE.fullmatch(text) is None:
            problem = "not a whole number" if not re.fullmatch(r"[+-]?[0-9]+", text) else "out of range"
            raise InputError(problem, field=name_of(param), value=value, expected=self.expected)
        number = int(text)
        if not int(self.min or 0) <= number <= int(self.max or 0):
            raise InputError("out of range", field=name_of(param), value=text, expected=self.expected)
        return number


class Real(click.FloatRange):
    """A number between two others."""

    def __init__(self, least: float, most: float, *, above: bool = False) -> None:
        """With ``above`` the least itself is left out."""
        super().__init__(least, most, min_open=above)
        self.expected = f"a number {'above' if above else 'from'} {least:,g} to {most:,g}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ARG002
        """The number. Raises InputError."""
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        least, most = float(self.min or 0), float(self.max or 0)
        # "nan" is a number for float(), and every comparison with it is false.
        if math.isnan(number):
            raise InputError("not a number", field=name_of(param), value=value, expected=self.expected)
        if not least <= number <= most or (self.min_open and number == least):
            raise InputError("out of range", field=name_of(param), value=str(value), expected=self.expected)
        return number


class OneOf(click.Choice[str]):
    """One of some words."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The word. Raises InputError."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            from gpufleet.model.label_advice import nearest

            near = nearest(str(value), self.choices)
            words = f"one of {', '.join(self.choices)}{f'; did you mean {near}?' if near else ''}"
            raise InputError("no such choice", field=name_of(param), value=value, expected=words) from error


class LabelSelectorText(click.ParamType["LabelSelector"]):
    """Labels as kubectl takes them: app=web,tier in (a,b),!old."""

    name = "labels"

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,
        ctx: click.Context | None,  # noqa: ARG002
    ) -> "LabelSelector":
        """The selector. Raises InputError."""
        from gpufleet.kube.codec.selector_text import read_selector

        try:
            return read_selector(str(value))
        except InputError as error:
            words = f"{error.problem}, expected: {error.expected}" if error.expected else error.problem
            expected = f"labels such as app=web,tier in (a,b) ({words})"
            raise InputError("no selector", field=name_of(param), value=value, expected=expected) from error


class PolicyName(click.ParamType[str]):
    """The name of a policy of the engine, which is imported only when there is one to look for."""

    name = "policy"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name. Raises InputError."""
        from gpufleet.engine.policy import POLICIES

        return OneOf(sorted(POLICIES)).convert(value, param, ctx)


class GivenPath(click.ParamType[Path]):
    """A path with what is expected there; the kinds of paths are made of it."""

    name = "path"

    def __init__(self, expected: str, *, stream: bool = False) -> None:
        """With ``stream`` a ``-`` is standard input or output."""
        self.expected = expected
        self.stream = stream

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:  # noqa: ARG002
        """The path. Raises InputError."""
        path = Path(value)
        if not str(value):
            raise InputError("an empty path", field=name_of(param), value="", expected=self.expected)
        if not (self.stream and str(value) == STANDARD_STREAM):
            self.check(path, name_of(param))
        return path

    def check(self, path: Path, field: str) -> None:
        """Raises InputError for a path that the command could not use."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        """The shell completes paths by itself."""
        return click.Path().shell_complete(ctx, param, incomplete)


class InputFile(GivenPath):
    """A file that the command reads."""

    name = "file"

    def check(self, path: Path, field: str) -> None:
        """The file is there and can be opened."""
        from gpufleet.files.given import check_readable

        check_readable(path, field=field, expected=self.expected)


class InputPath(GivenPath):
    """A file that the command reads, or a folder of such files."""

    def check(self, path: Path, field: str) -> None:
        """The file is there and can be opened."""
        from gpufleet.files.given import check_readable

        check_readable(path, field=field, expected=self.expected, folder_too=True)


class InputFolder(GivenPath):
    """A folder whose content the command uses."""

    name = "folder"

    def check(self, path: Path, field: str) -> None:
        """The folder is there and can be listed."""
        from gpufleet.files.given import check_folder

        check_folder(path, field=field, expected=self.expected)


class OutputFile(GivenPath):
    """A file that the command writes, or replaces."""

    name = "file"

    def check(self, path: Path, field: str) -> None:
        """Whether the path has a folder to be in, and is no folder itself."""
        from gpufleet.files.atomic_write import check_target

        check_target(path, field)


class OutputFolder(GivenPath):
    """A folder that the command makes if it is not there."""

    name = "folder"

    def check(self, path: Path, field: str) -> None:
        """No file stands in its place or above it."""
        from gpufleet.files.given import check_new_folder

        check_new_folder(path, field=field, expected=self.expected)


class OwnPath(GivenPath):
    """A path of a machine that a daemon looks at, again and again: it may come later, or change."""


DATABASE_SCHEMES = ("postgresql://", "postgres://")
"""How the URL of a database begins; a file of such a name is written with ./ before it."""

LogSource = Union[Path, "DatabaseAddress"]


class LogParameter(click.ParamType[LogSource]):
    """A file of observations or charges, or the URL of a database that `gpufleet ledger` writes."""

    name = "log"

    def __init__(self, expected: str) -> None:
        self._file = InputFile(expected)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> LogSource:
        """The path or the address. Raises InputError."""
        if isinstance(value, str) and value.startswith(DATABASE_SCHEMES):
            # psycopg is loaded only where there is a database.
            from gpufleet.ledger.database.address import address_of

            return address_of(value, name_of(param))
        return self._file.convert(value, param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        """The shell completes paths by itself."""
        return self._file.shell_complete(ctx, param, incomplete)


POLICY = PolicyName()
KUBECONFIG = InputFile("a kubeconfig")
SNAPSHOT = InputFile("a file of `gpufleet snapshot`")
