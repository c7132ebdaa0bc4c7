"""The options by which a command says what pods are given that ask for GPUs."""

from collections.abc import Callable
from typing import TypeVar

import click

from gpufleet.cli.cluster_options import scheduler_option
from gpufleet.cli.parameters import OneOf

Decorated = TypeVar("Decorated", bound=Callable[..., object])
ADDITIONS = [
    "share-slot",
    "hami-slots",
    "volcano-slots",
    "scheduler-name",
    "shared-toleration",
    "pool-tolerations",
    "runtime-class",
    "shared-memory",
]
"""The names of ``gpufleet.completion.additions``, written here so that help needs no import of them."""


def completion_options(command: Decorated) -> Decorated:
    """--scheduler-name, --pool-taint, --runtime-class, --shared-memory and --without."""
    for option in (
        click.option(
            "--without",
            "left_out",
            type=OneOf(ADDITIONS),
            multiple=True,
            metavar="ADDITION",
            help=f"Leave out an addition to pods: {', '.join(ADDITIONS)}; repeat.",
        ),
        click.option(
            "--shared-memory", is_flag=True, help="Mount memory at /dev/shm of containers with several GPUs."
        ),
        click.option("--runtime-class", default="", metavar="NAME", help="Give GPU pods this RuntimeClass."),
        click.option(
            "--pool-taint",
            "pool_taints",
            multiple=True,
            metavar="KEY",
            help="Let GPU pods tolerate the taint NoSchedule of this key; repeat.",
        ),
    ):
        command = option(command)
    return scheduler_option(command)
