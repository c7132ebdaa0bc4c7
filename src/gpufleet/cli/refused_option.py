"""Names the option by which a command was given what it refuses, as the user typed it.

A file or a text is often refused far below the command, by code that knows the value and not the option. So
the context of every command looks which option has that value and puts its name into the sentence; ``main``
prints it.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import click

from gpufleet.cli.parameters import name_of
from gpufleet.model.model_errors import InputError


class Typed(NamedTuple):
    """An option of the command line, and one text that stood behind it."""

    option: str
    text: str


class NamingContext(click.Context):
    """A context whose command names its options in what it refuses."""

    def invoke(self, callback: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """What the command returns. Raises InputError with the option in its sentence."""
        try:
            return super().invoke(callback, *args, **kwargs)
        except InputError as error:
            named = with_option(error, list(typed_options(self)))
            if named is error:
                raise
            raise named from error


def naming_options(command: click.Command) -> click.Command:
    """The command, which from now on names its options in what it refuses; a group's commands do too."""
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            naming_options(inner)
    command.context_class = NamingContext
    return command


def typed_options(context: click.Context) -> Iterator[Typed]:
    """The options of the command line with their texts, the longest text first."""
    found = []
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if isinstance(parameter, click.Option) and source is click.core.ParameterSource.COMMANDLINE:
            value = context.params.get(str(parameter.name))
            values = value if isinstance(value, tuple | list) else (value,)
            found += [Typed(name_of(parameter), str(one)) for one in values]
    # A short text is often a part of a longer one.
    yield from sorted(found, key=lambda one: -len(one.text))


def with_option(error: InputError, typed: list[Typed]) -> InputError:
    """The error with the option in it whose text it is about; the error itself where it names one already."""
    sentence = str(error)
    if any(stands_in(one.option, sentence) for one in typed):
        return error
    for one in typed:
        # A field that is an option's name is one of another command, where the same code is used.
        if is_value(error, one.text) and (not error.where or error.field.startswith("--")):
            return _changed(error, where=error.where, field=one.option)
    for one in typed:
        if one.text and stands_in(one.text, error.where):
            between = " " if error.where.startswith(one.text) else ", "
            return _changed(error, where=f"{one.option}{between}{error.where}", field=error.field)
        if one.text and stands_in(one.text, error.field):
            between = " " if error.field.startswith(one.text) else ", "
            return _changed(error, where=error.where, field=f"{one.option}{between}{error.field}")
    return error


def is_value(error: InputError, text: str) -> bool:
    """Whether the error is about this text, or about one of the words in it."""
    return isinstance(error.value, str) and error.value in {text, *text.split(",")}


def stands_in(words: str, sentence: str) -> bool:
    """Whether the sentence has these words, and not as a part of other ones."""
    return re.search(rf"(?<![\w-]){re.escape(words)}(?![\w-])", sentence) is not None


def _changed(error: InputError, *, where: str, field: str) -> InputError:
    return InputError(error.problem, field=field, value=error.value, expected=error.expected, where=where)
