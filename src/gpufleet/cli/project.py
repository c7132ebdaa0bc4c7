"""``gpufleet project``: projects of teams, made by administrators and changed by their owners.

``operator.projects`` does the work, ``project_output`` lays it out.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpufleet.cli.cluster_options import cluster_options
from gpufleet.cli.parameters import OneOf, OutputFile, Whole
from gpufleet.cli.project_parameters import Amount, NamespaceName, PersonName, ProjectName
from gpufleet.cli.prometheus_options import SECONDS, prometheus_server_options

if TYPE_CHECKING:
    from gpufleet.usage.prometheus.access import Access


NAMESPACES_MAX = 64
"""As many as the definition of GpuProject takes."""

GPUS_MAX = 10**6
"""More than any fleet has."""

WAIT_MAX_S = 86_400
"""A day: pods may have hours to end."""

PROJECT = ProjectName()
NAMESPACE = NamespaceName()
PERSON = PersonName()
OUTPUT = click.option("-o", "--output", type=OneOf(["text", "json"]), default="text", help="[default: text]")
USER = click.option("--user", type=PERSON, help="A user, as the API server knows them.")
GROUP = click.option("--group", type=PERSON, help="A group, as the API server knows it.")


@click.group(name="project")
def command() -> None:
    """Make projects of teams, show them, and change who works in them.

    Administrators make and delete projects. Owners invite members and add namespaces within the limits that
    the project says, with their own kubeconfig.
    """


@command.command(name="create")
@click.argument("name", type=PROJECT)
@click.option(
    "--namespace", "namespaces", multiple=True, type=NAMESPACE, help="Of these.  [default: one named as it]"
)
@click.option("--owner", "owners", multiple=True, type=PERSON, metavar="USER", help="A user who owns it.")
@click.option(
    "--owner-group", "owner_groups", multiple=True, type=PERSON, metavar="GROUP", help="A group that owns it."
)
@click.option(
    "--namespaces-max",
    type=Whole(0, NAMESPACES_MAX),
    default=0,
    help="How many namespaces it has at most when an owner adds one.  [default: owners add none]",
)
@click.option("--gpus", type=Whole(0, GPUS_MAX), help="Make a queue for it that owns so many GPUs.")
@click.option("--parent", type=ProjectName("queue"), help="The queue that its own queue is a part of.")
@click.option("--queue", type=ProjectName("queue"), help="Its queue.  [default: named as it, with --gpus]")
@click.option(
    "--quota",
    multiple=True,
    type=Amount(),
    metavar="KEY=AMOUNT",
    help="What each namespace may have, such as requests.nvidia.com/gpu=8.",
)
@click.option(
    "--container-default",
    "defaults",
    multiple=True,
    type=Amount(is_default=True),
    metavar="KEY=AMOUNT",
    help="What a container gets that does not say it, such as memory=1Gi.",
)
@OUTPUT
@cluster_options
def create(
    name: str,
    namespaces: tuple[str, ...],
    owners: tuple[str, ...],
    owner_groups: tuple[str, ...],
    namespaces_max: int,
    gpus: int | None,
    parent: str | None,
    queue: str | None,
    quota: tuple[tuple[str, str], ...],
    defaults: tuple[tuple[str, str], ...],
    output: str,
    kubeconfig: Path | None,
    context: str,
) -> None:
    """Make a project, which the operator then makes namespaces for.

    What else a project may say (networks, images, idle work) is written to the GpuProject itself:
    kubectl edit gpuproject NAME.
    """
    from gpufleet.cli.project_output import show_created
    from gpufleet.kube.connection import ClusterChoice
    from gpufleet.operator.projects.project_answers import NewProject
    from gpufleet.operator.projects.questions import create as make

    new = NewProject(
        name,
        namespaces,
        owners,
        owner_groups,
        gpus,
        parent or "",
        queue or "",
        namespaces_max,
        quota,
        defaults,
    )
    show_created(make(ClusterChoice(kubeconfig, context), new), output)


@command.command(name="list")
@OUTPUT
@cluster_options
def list_(output: str, kubeconfig: Path | None, context: str) -> None:
    """Show all projects; who may not list them sees those that they own."""
    from gpufleet.cli.project_output import show_projects
    from gpufleet.kube.connection import ClusterChoice
    from gpufleet.operator.projects.questions import all_projects

    show_projects(all_projects(ClusterChoice(kubeconfig, context)), output)


@command.command(name="show")
@click.argument("name", type=PROJECT)
@OUTPUT
@cluster_options
def show(name: str, output: str, kubeconfig: Path | None, context: str) -> None:
    """Show one project: how far it is, who works in it, what its namespaces use of their quotas."""
    from gpufleet.cli.project_output import show_project
    from gpufleet.kube.connection import ClusterChoice
    from gpufleet.operator.projects.questions import one_project

    show_project(one_project(ClusterChoice(kubeconfig, context), name), output)


@command.command(name="invite")
@click.argument("name", type=PROJECT)
@USER
@GROUP
@click.option(
    "--role",
    type=OneOf(["Member", "Viewer", "Owner"]),
    default="Member",
    help="What they may do; administrators name owners.  [default: Member]",
)
@OUTPUT
@cluster_options
def invite(
    name: str,
    user: str | None,
    group: str | None,
    role: str,
    output: str,
    kubeconfig: Path | None,
    context: str,
) -> None:
    """Make a user or a group a member of a project, or give them another role there."""
    from gpufleet.cli.project_output import show_invited
    from gpufleet.kube.connection import ClusterChoice
    from gpufleet.model.gpu_project import ProjectRole
    from gpufleet.operator.projects.questions import Person
    from gpufleet.operator.projects.questions import invite as invite_them

    _check_one(user, group)
    person = Person(user or "", group or "")
    told, is_new = invite_them(ClusterChoice(kubeconfig, context), name, person, ProjectRole(role))
    show_invited(told, person, role, output, is_new=is_new)


@command.command(name="remove")
@click.argument("name", type=PROJECT)
@USER
@GROUP
@OUTPUT
@cluster_options
def remove(
    name: str, user: str | None, group: str | None, output: str, kubeconfig: Path | None, context: str
) -> None:
    """Take a user or a group out of a project; their rights end at once, and what they run goes on."""
    from gpufleet.cli.project_output import show_removed
    from gpufleet.kube.connection import ClusterChoice
    from gpufleet.operator.projects.questions import Person
    from gpufleet.operator.projects.questions import remove as remove_them

    _check_one(user, group)
    person = Person(user or "", group or "")
    show_removed(remove_them(ClusterChoice(kubeconfig, context), name, person), person, output)


@command.command(name="namespace")
@click.argument("name", type=PROJECT)
@click.argument("namespace", type=NAMESPACE)
@click.option("--remove", "removes", is_flag=True, help="Delete it with all that is in it.")
@click.option("--yes", is_flag=True, help="With --remove: do it, and do not ask.")
@OUTPUT
@cluster_options
def namespace_(
    name: str, namespace: str, removes: bool, yes: bool, output: str, kubeconfig: Path | None, context: str
) -> None:
    """Add a namespace to a project, or remove one.

    Owners add and remove namespaces with names that begin as the project says, up to its limit.
    """
    from gpufleet.cli.project_output import agreed, show_namespace, show_namespace_removed
    from gpufleet.kube.connection import ClusterChoice
    from gpufleet.operator.projects.questions import add_namespace, remove_namespace

    cluster = ClusterChoice(kubeconfig, context)
    if not removes:
        told, is_new = add_namespace(cluster, name, namespace)
        show_namespace(told, namespace, output, is_new=is_new)
    elif yes or agreed(f"Delete namespace {namespace} with all that is in it?"):
        show_namespace_removed(remove_namespace(cluster, name, namespace), namespace, output)


@command.command(name="delete")
@click.argument("name", type=PROJECT)
@click.option("--yes", is_flag=True, help="Do it, and do not ask.")
@click.option(
    "--wait",
    "wait_s",
    type=Whole(0, WAIT_MAX_S),
    default=300,
    show_default=True,
    help="How many seconds to wait until its namespaces are gone.",
)
@click.option(
    "--usage",
    "usage_file",
    type=OutputFile("a file for what it has used"),
    help="Write what it has used to this file, as JSON, before anything is deleted.",
)
@click.option(
    "--window", "window_s", type=SECONDS, default="30d", show_default=True, help="Over so much of the past."
)
@prometheus_server_options("Ask this Prometheus, which scrapes gpufleet's agents, what it has used.")
@OUTPUT
@cluster_options
def delete(
    name: str,
    yes: bool,
    wait_s: int,
    usage_file: Path | None,
    window_s: int,
    prometheus: "Access | None",
    output: str,
    kubeconfig: Path | None,
    context: str,
) -> int:
    """Delete a project with all that it has: namespaces and what is in them, queue, rights.

    What it has used is told first. Without --yes it is shown what ends, and asked for on a terminal. Cut off,
    the same command goes on. Ends with code 3 if a namespace is not gone in time.
    """
    from gpufleet.cli.project_deletion import delete_project
    from gpufleet.kube.connection import ClusterChoice
    from gpufleet.usage.prometheus.client import Prometheus

    measurements = None if prometheus is None else Prometheus(prometheus)
    cluster = ClusterChoice(kubeconfig, context)
    return delete_project(cluster, name, measurements, usage_file, window_s, wait_s, output, yes=yes)


def _check_one(user: str | None, group: str | None) -> None:
    if bool(user) == bool(group):
        raise click.UsageError("name either --user or --group")
