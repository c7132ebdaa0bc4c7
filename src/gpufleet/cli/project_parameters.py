"""What options of ``gpufleet project`` take: names of projects and namespaces, amounts, people."""

from typing import Any

import click

from gpufleet.cli.parameters import name_of
from gpufleet.model.model_errors import InputError

NAME_LENGTH_MAX = 63
"""A project's name is the value of a label."""


class ProjectName(click.ParamType[str]):
    """The name of a project, or with ``kind`` of a queue."""

    name = "name"

    def __init__(self, kind: str = "project") -> None:
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002
        """The name. Raises InputError."""
        from gpufleet.model.label_syntax import is_subdomain

        text = str(value)
        if not is_subdomain(text) or len(text) > NAME_LENGTH_MAX:
            expected = f"a DNS name of at most {NAME_LENGTH_MAX} characters"
            problem = f"not a {self._kind}'s name"
            raise InputError(problem, field=name_of(param), value=text, expected=expected)
        return text


class NamespaceName(click.ParamType[str]):
    """The name of a namespace that may belong to a project."""

    name = "namespace"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002
        """The name. Raises InputError."""
        from gpufleet.model.gpu_project import check_own_namespace

        check_own_namespace(str(value), name_of(param))
        return str(value)


class PersonName(click.ParamType[str]):
    """A user or a group of the identity provider."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002
        """The name. Raises InputError."""
        text = str(value)
        if not text or text.startswith("system:"):
            problem = "no name" if not text else "a name of Kubernetes' own"
            expected = "a user or a group as the API server knows it"
            raise InputError(problem, field=name_of(param), value=text, expected=expected)
        return text


class Amount(click.ParamType[tuple[str, str]]):
    """KEY=AMOUNT of a quota, or of defaults of containers."""

    name = "amount"

    def __init__(self, *, is_default: bool = False) -> None:
        self._is_default = is_default

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,
        ctx: click.Context | None,  # noqa: ARG002
    ) -> tuple[str, str]:
        """Key and amount. Raises InputError."""
        from gpufleet.model.gpu_project import check_amount, check_default_key, check_quota_key

        field, (key, equals, amount) = name_of(param), str(value).partition("=")
        if not (key and equals and amount):
            example = "memory=1Gi" if self._is_default else "requests.nvidia.com/gpu=8"
            raise InputError("no amount", field=field, value=str(value), expected=f"KEY=AMOUNT: {example}")
        if self._is_default:
            check_default_key(key, field)
        else:
            check_quota_key(key, field)
        check_amount(amount, field)
        return key, amount
