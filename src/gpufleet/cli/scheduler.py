"""``gpufleet scheduler``: run the live scheduler against a cluster."""

import click

from gpufleet.cli.cluster_options import cluster_options
from gpufleet.cli.log_options import log_options
from gpufleet.cli.parameters import POLICY, InputFile, OutputFile, Real, Whole


@click.command(name="scheduler")
@cluster_options
@click.option("--scheduler-name", default="gpufleet", show_default=True, help="Pods with this schedulerName.")
@click.option("--identity", default="", help="This process in the Lease.  [default: host name and a number]")
@click.option("--lease-namespace", default="gpufleet-system", show_default=True)
@click.option("--lease-seconds", type=Whole(1, 600), default=15, show_default=True, help="Lease duration.")
@click.option("--policy", type=POLICY, default="gpufleet", show_default=True, help="How places are chosen.")
@click.option(
    "--gang-deadline",
    type=Real(0, 10_000_000, above=True),
    default=600.0,
    show_default=True,
    help="Seconds until a gang that is bound in part is taken back.",
)
@click.option(
    "--stale-gang-grace",
    type=Real(-1, 10_000_000),
    default=60.0,
    show_default=True,
    help="Seconds in which a gang that ran may replace members before it is taken back; -1 for ever.",
)
@click.option(
    "--silent-watch",
    type=Real(0, 86_400, above=True),
    default=90.0,
    show_default=True,
    help="Seconds after which a watch that says nothing is opened anew; servers speak once a minute.",
)
@click.option("--binds-at-once", type=Whole(1, 10_000), default=32, show_default=True)
@click.option(
    "--fence/--no-fence",
    default=True,
    show_default=True,
    help="Wait until the API server refuses an older leader's Bindings.",
)
@click.option(
    "--evict-memory-offenders",
    is_flag=True,
    help="Evict pods that go on using more GPU memory than their share; else they are only warned.",
)
@click.option(
    "--defragment-to-start",
    metavar="DURATION",
    help="Start work that has waited for so long (5m) by moving others, each to a place that is kept for it.",
)
@click.option(
    "--defragment-every",
    metavar="DURATION",
    help="Move pods so that what is free lies together, so often (1h).",
)
@click.option(
    "--defragment-window", metavar="HH:MM-HH:MM", help="Only at this time of the day (UTC).  [default: any]"
)
@click.option(
    "--defragment-moves-a-run",
    type=Whole(1, 10_000),
    default=10,
    show_default=True,
    help="Pods to move at once at most.",
)
@click.option(
    "--defragment-moves-a-day",
    type=Whole(1, 1_000_000),
    default=100,
    show_default=True,
    help="Pods to move within any 24 hours at most.",
)
@click.option(
    "--defragment-gpu-minutes-a-day",
    type=Whole(0, 1_000_000_000),
    help="Work that may end with pods that are moved within any 24 hours.  [default: any]",
)
@click.option(
    "--defragment-queue",
    multiple=True,
    metavar="QUEUE",
    help="Move only work of these queues, and start only their work so; may be repeated.  [default: all]",
)
@click.option(
    "--mig-on-demand",
    metavar="DURATION",
    help="Cut cards for pods that have waited for MIG instances so long (30s).  [default: never]",
)
@click.option(
    "--mig-whole-after",
    metavar="DURATION",
    default="10m",
    show_default=True,
    help="Make such cards whole for work that waits once nothing has used them for so long.",
)
@click.option(
    "--preempt-by-priority/--no-preempt-by-priority",
    default=True,
    show_default=True,
    help="Evict pods of lower priority for work outside of every FleetQueue.",
)
@click.option(
    "--listen",
    default="127.0.0.1:0",
    show_default=True,
    help="Where /metrics, /healthz and /readyz are served; port 0 takes a free one.",
)
@click.option(
    "--metrics-certificate",
    type=InputFile("a certificate as PEM"),
    metavar="FILE",
    help="Serve HTTPS with this PEM certificate; read again when it changes.",
)
@click.option(
    "--metrics-key", type=InputFile("a key as PEM"), metavar="FILE", help="The certificate's key as PEM."
)
@click.option("--event-log", type=OutputFile("a file to write"), help="Save every step for `gpufleet rerun`.")
@log_options
def command(**options: object) -> int:
    """Schedule the pods that name this scheduler, while this process leads.

    Ends when leadership is lost, so run it under something that starts it again (a Deployment does).
    """
    from gpufleet.scheduler.process import ProcessOptions, run_process

    return run_process(ProcessOptions(**options))  # type: ignore[arg-type]
