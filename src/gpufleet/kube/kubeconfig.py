"""Reads kubeconfig files as kubectl does: a list of them, merged, with one context chosen.

The first file to say something wins; paths in a file are relative to its folder. What was chosen
becomes a way to the server in ``configured_access``.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec
import yaml

from gpufleet.files.regular import UnfitFileError, read_regular, size_words
from gpufleet.kube.kube_errors import SettingsError
from gpufleet.kube.yaml_documents import check_events
from gpufleet.model.model_errors import InputError, printable

LARGEST_FILE_BYTES = 4 * 1024 * 1024
"""A kubeconfig of hundreds of clusters with certificates stays below it."""


class Cluster(msgspec.Struct, frozen=True, rename="kebab"):
    """How a server is reached."""

    server: str | None = None
    tls_server_name: str | None = None
    insecure_skip_tls_verify: bool | None = None
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    proxy_url: str | None = None
    extensions: list["NamedExtension"] | None = None


class NamedExtension(msgspec.Struct, frozen=True):
    """Something that another program left in the file."""

    name: str = ""
    extension: object = None


class ExecVariable(msgspec.Struct, frozen=True):
    """One more variable in a plugin's environment."""

    name: str
    value: str = ""


class ExecSettings(msgspec.Struct, frozen=True, rename="camel"):
    """A program that prints credentials."""

    command: str
    api_version: str = ""
    args: list[str] | None = None
    env: list[ExecVariable] | None = None
    install_hint: str | None = None
    provide_cluster_info: bool | None = None
    interactive_mode: str | None = None


class User(msgspec.Struct, frozen=True, rename="kebab"):
    """The credentials of one user."""

    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    token: str | None = None
    token_file: str | None = msgspec.field(name="tokenFile", default=None)
    username: str | None = None
    password: str | None = None
    exec: ExecSettings | None = None
    auth_provider: dict[str, object] | None = None
    impersonated: str | None = msgspec.field(name="as", default=None)


class Context(msgspec.Struct, frozen=True):
    """Which user on which cluster, and in which namespace."""

    cluster: str | None = None
    user: str | None = None
    namespace: str | None = None


class _NamedCluster(msgspec.Struct, frozen=True):
    name: str
    cluster: Cluster | None = None


class _NamedUser(msgspec.Struct, frozen=True):
    name: str
    user: User | None = None


class _NamedContext(msgspec.Struct, frozen=True):
    name: str
    context: Context | None = None


class _File(msgspec.Struct, frozen=True, rename="kebab"):
    current_context: str | None = None
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None


class Overrides(msgspec.Struct, frozen=True):
    """What the command line says over the files; empty where it says nothing."""

    context: str = ""
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class Chosen(msgspec.Struct, frozen=True):
    """One cluster and one user, and the files that they stand in (for relative paths and errors)."""

    context: str
    namespace: str
    cluster: Cluster
    cluster_file: Path
    user: User
    user_file: Path


NO_OVERRIDES = Overrides()
Value = TypeVar("Value")


def default_files(environment: Mapping[str, str]) -> list[Path]:
    """The files that KUBECONFIG lists, else ``~/.kube/config``; only those that exist."""
    listed = environment.get("KUBECONFIG", "")
    if listed:
        candidates = [Path(name) for name in listed.split(os.pathsep) if name]
    else:
        candidates = [Path(environment.get("HOME", "~")).expanduser() / ".kube" / "config"]
    return [path for path in dict.fromkeys(candidates) if path.exists()]


def choose(files: list[Path], overrides: Overrides = NO_OVERRIDES) -> Chosen:
    """Merge the files and choose a context. Raises SettingsError."""
    read = [(path, _read(path)) for path in files]
    where = ", ".join(map(str, files))
    # The first file that says it counts, for contexts as for all entries: as in kubectl.
    current = next((file.current_context for _, file in read if file.current_context), "") or ""
    name = overrides.context or current
    contexts = _merged(
        (path, entry.name, entry.context) for path, file in read for entry in file.contexts or ()
    )
    if name:
        _, context = _named(contexts, name, "context", "current-context" if name == current else "", where)
    # A cluster that is named needs no context: the user may have no credentials at all.
    elif overrides.cluster:
        context = Context()
    else:
        raise SettingsError(
            "no context is chosen",
            field="current-context",
            expected=f"one of {_names(contexts)}",
            where=where,
        )
    clusters = _merged(
        (path, entry.name, entry.cluster) for path, file in read for entry in file.clusters or ()
    )
    users = _merged((path, entry.name, entry.user) for path, file in read for entry in file.users or ())
    place = f"contexts[{name}]"
    cluster_name = overrides.cluster or context.cluster or ""
    cluster_file, cluster = _named(clusters, cluster_name, "cluster", f"{place}.cluster", where)
    user_name = overrides.user or context.user or ""
    # Anonymous: some servers let that read.
    user_file, user = files[0], User()
    if user_name:
        user_file, user = _named(users, user_name, "user", f"{place}.user", where)
    return Chosen(
        context=name,
        namespace=overrides.namespace or context.namespace or "default",
        cluster=cluster,
        cluster_file=cluster_file,
        user=user,
        user_file=user_file,
    )


def _read(path: Path) -> _File:
    where = str(path)
    try:
        data = read_regular(path, LARGEST_FILE_BYTES)
    except UnfitFileError as error:
        expected = f"a kubeconfig in a regular file of at most {size_words(LARGEST_FILE_BYTES)}"
        raise SettingsError(f"cannot be read ({error.problem})", expected=expected, where=where) from error
    except OSError as error:
        raise SettingsError(
            f"cannot be read ({error.strerror})", expected="a kubeconfig file", where=where
        ) from error
    if not data.strip():
        return _File()
    try:
        check_events(yaml.parse(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)), where)
        return msgspec.yaml.decode(data, type=_File)
    except yaml.YAMLError as error:
        raise SettingsError(f"is no YAML{_line_of(error)}", expected="a kubeconfig", where=where) from None
    except InputError as error:
        raise SettingsError(error.problem, expected=error.expected, where=error.where) from error
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at ")
        raise SettingsError(problem, field=place.strip("`"), expected="a kubeconfig", where=where) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        # What the parser quotes could be a token.
        raise SettingsError(f"is no YAML{_line_of(error)}", expected="a kubeconfig", where=where) from None


def _line_of(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None) or getattr(error.__context__, "problem_mark", None)
    return f" (line {mark.line + 1})" if mark is not None else ""


Entries = dict[str, tuple[Path, Value]]


def _merged(entries: Iterator[tuple[Path, str, Value | None]]) -> Entries[Value]:
    merged: Entries[Value] = {}
    for path, name, value in entries:
        if value is not None:
            merged.setdefault(name, (path, value))
    return merged


def _named(entries: Entries[Value], name: str, what: str, field: str, where: str) -> tuple[Path, Value]:
    found = entries.get(name)
    if found is None:
        raise SettingsError(
            f"there is no {what} of this name",
            field=field or f"--{what}",
            value=name,
            expected=f"one of {_names(entries)}",
            where=where,
        )
    return found


def _names(entries: Mapping[str, object]) -> str:
    return ", ".join(printable(name) for name in sorted(entries)) or "none (there are none)"
