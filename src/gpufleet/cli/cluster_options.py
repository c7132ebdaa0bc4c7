"""The options by which a command says which cluster it asks, and which scheduler there is meant."""

from collections.abc import Callable
from typing import TypeVar

import click

from gpufleet.cli.parameters import KUBECONFIG

Decorated = TypeVar("Decorated", bound=Callable[..., object])


def cluster_options(command: Decorated) -> Decorated:
    """--kubeconfig and --context."""
    for option in (
        click.option("--context", default="", help="The kubeconfig's context to use."),
        click.option("--kubeconfig", type=KUBECONFIG, help="Instead of KUBECONFIG and ~/.kube/config."),
    ):
        command = option(command)
    return command


def daemon_options(namespace_help: str) -> Callable[[Decorated], Decorated]:
    """--kubeconfig, --context and --namespace of a program that runs in a cluster or beside one."""

    def decorate(command: Decorated) -> Decorated:
        for option in (
            click.option(
                "--namespace",
                envvar="POD_NAMESPACE",
                default="gpufleet-system",
                show_default=True,
                help=f"{namespace_help}  [env: POD_NAMESPACE]",
            ),
            click.option("--context", default="", help="The kubeconfig's context to use."),
            click.option(
                "--kubeconfig", type=KUBECONFIG, help="Instead of KUBECONFIG, or the pod's own account."
            ),
        ):
            command = option(command)
        return command

    return decorate


def scheduler_option(command: Decorated) -> Decorated:
    """--scheduler-name."""
    return click.option(
        "--scheduler-name", default="gpufleet", show_default=True, help="The scheduler's name in pods."
    )(command)


def scheduler_options(command: Decorated) -> Decorated:
    """--scheduler-name and --lease-namespace."""
    lease = click.option(
        "--lease-namespace",
        default="gpufleet-system",
        show_default=True,
        help="Where the scheduler's Lease is.",
    )
    return scheduler_option(lease(command))
