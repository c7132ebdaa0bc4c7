"""``gpufleet leave``: takes back what gpufleet has written on nodes.

``operator.leaving`` knows what that is. The chart runs it after ``helm uninstall``.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpufleet.cli.cluster_options import cluster_options
from gpufleet.cli.output import echo_json, echo_line
from gpufleet.cli.parameters import OneOf
from gpufleet.model.phrases import counted

if TYPE_CHECKING:
    from gpufleet.kube.client import Client
    from gpufleet.operator.leaving import Leftover

NODES_SHOWN_MAX = 20
"""As many nodes as a screen has room for; -o json has all of them."""

WAIT_S = 60.0
"""A pod that ends has 30 s until it is killed, and the kubelet needs some to say so."""

DEFINITIONS_WAIT_S = 120.0
"""The API server deletes some hundred objects a second: enough for the reports of 10,000 nodes."""


@click.command(name="leave")
@click.option(
    "-n", "--namespace", default="gpufleet-system", show_default=True, help="Where gpufleet was installed."
)
@click.option("--yes", is_flag=True, help="Do it, and do not ask.")
@click.option(
    "--definitions",
    is_flag=True,
    help="Delete the definitions of gpufleet's kinds too, and with them all queues, policies and reports.",
)
@click.option("-o", "--output", type=OneOf(["text", "json"]), default="text", help="[default: text]")
@cluster_options
def command(
    namespace: str, yes: bool, definitions: bool, output: str, kubeconfig: Path | None, context: str
) -> int:
    """Take back what gpufleet has written on nodes: labels, taints, annotations, conditions, cordons.

    For clusters that gpufleet has left: agents and operators that still run would write again, and are waited
    for. What others wrote stays. Without --yes it is shown first, and asked for on a terminal.

    Ends with code 3 if an agent or an operator still runs, if a definition is not gone, or if the cluster
    cannot be changed.
    """
    import asyncio

    return asyncio.run(_leave(namespace, yes, definitions, output, kubeconfig, context))


async def _leave(
    namespace: str, yes: bool, definitions: bool, output: str, kubeconfig: Path | None, context: str
) -> int:
    from gpufleet.cli.main import ExitCode
    from gpufleet.kube.connection import ClusterChoice, connect
    from gpufleet.operator.leaving import leftovers, writers

    async with connect(ClusterChoice(kubeconfig, context)) as connection:
        client = connection.client
        if not yes:
            found = [one async for one in leftovers(client)]
            _show(found, output)
            left = await writers(client, namespace)
            if left:
                echo_line(_still_running(left, namespace), err=True)
                return ExitCode.WORLD_FAILED
            if not (found or definitions) or not _agreed(definitions):
                return ExitCode.DONE
        return await _take_back(client, namespace, definitions)


async def _take_back(client: "Client", namespace: str, definitions: bool) -> int:
    from gpufleet.cli.main import ExitCode
    from gpufleet.kube.manifests import definition_names
    from gpufleet.operator.leaving import (
        definitions_gone,
        delete_definitions,
        delete_features,
        leftovers,
        take_back,
        writers_gone,
    )

    # Before anything is read: what still runs would write again what is taken back.
    left = await writers_gone(client, namespace, WAIT_S)
    found = [one async for one in leftovers(client)]
    await take_back(client, [one.node for one in found])
    features = await delete_features(client)
    nodes, labels = counted(len(found), "node"), counted(features, "NodeFeature")
    echo_line(f"taken back on {nodes}; {labels} deleted", err=True)
    kept: tuple[str, ...] = ()
    if definitions:
        deleted = await delete_definitions(client, definition_names())
        kept = await definitions_gone(client, deleted, DEFINITIONS_WAIT_S)
        gone = [name for name in deleted if name not in kept]
        echo_line(f"definitions deleted: {', '.join(gone) or 'none'}", err=True)
    if kept:
        echo_line(_still_there(kept), err=True)
    if left:
        echo_line(_still_running(left, namespace), err=True)
    return ExitCode.WORLD_FAILED if kept or left else ExitCode.DONE


def _show(found: "list[Leftover]", output: str) -> None:
    if output == "json":
        echo_json(found)
        return
    if not found:
        echo_line("No node has anything of gpufleet.")
    for one in found[:NODES_SHOWN_MAX]:
        echo_line(f"{one.node}:")
        for words in one.words():
            echo_line(f"  {words}")
    if len(found) > NODES_SHOWN_MAX:
        echo_line(f"and {len(found) - NODES_SHOWN_MAX} nodes more; -o json shows all of them")


def _agreed(definitions: bool) -> bool:
    if not sys.stdin.isatty():
        echo_line("Nothing was changed; --yes does it.", err=True)
        return False
    more = ", and delete gpufleet's kinds with all of their objects" if definitions else ""
    # On standard error: with -o json standard output is a document.
    if click.confirm(f"Take this back{more}?", err=True):
        return True
    echo_line("Nothing was changed.", err=True)
    return False


def _still_running(names: tuple[str, ...], namespace: str) -> str:
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return (
        f"{shown} in {namespace} still run and would write on nodes again: uninstall gpufleet first "
        f"(helm uninstall), then gpufleet leave"
    )


def _still_there(names: tuple[str, ...]) -> str:
    return (
        f"still being deleted after {DEFINITIONS_WAIT_S:.0f} s: {', '.join(names)}. The API server goes on "
        f"by itself, unless an object of them has a finalizer that its owner does not clear: "
        f"kubectl get {names[0]} -A -o yaml shows it"
    )
