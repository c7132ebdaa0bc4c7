"""Run the trials and publish: `make bench-agent`.

An hour of a busy node is some hundred pods that come and go; here they do so as fast as the API server
lets them.
"""

import asyncio
import sys

import click

from bench.agent.arena import Load, an_agent, api_server
from bench.agent.trials import Cost, measure, percentile
from bench.figures import Figure, figure, publish
from gpufleet.cli.main import run_program
from gpufleet.cli.parameters import Real, Whole

INSTANCES = ", ".join(f"{{profile: 1g.10gb, start: {start}}}" for start in range(7))
LOADS = (
    Load("8 x 7 instances", f"gpus: [{{model: H100-80GB, count: 8, numaNodes: 2, mig: [{INSTANCES}]}}]\n"),
    Load(
        "8 x 10 shares",
        "gpus: [{model: H100-80GB, count: 8, numaNodes: 2}]\n",
        "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 10}]}}\n",
    ),
)
PODS_OF_AN_HOUR = 600


def figures(load: Load, cost: Cost) -> list[Figure]:
    """What is judged, beside its limit."""
    name = load.name
    return [
        figure(f"{name}: resident memory", cost.resident_mib, "MiB", "lower", 80),
        figure(f"{name}: resident memory after an hour's pods", cost.churned_mib, "MiB", "lower", 80),
        figure(f"{name}: growth by an hour's pods", cost.churned_mib - cost.resident_mib, "MiB", "lower"),
        figure(f"{name}: most memory ever", cost.peak_mib, "MiB", "lower"),
        figure(f"{name}: idle CPU of one core", cost.idle_cpu_pct, "%", "lower", 1),
        figure(f"{name}: page of metrics", cost.page_kib, "KiB", "lower"),
        figure(f"{name}: scrape p50", percentile(cost.scrape_ms, 0.5), "ms", "lower"),
        figure(f"{name}: scrape p99", percentile(cost.scrape_ms, 0.99), "ms", "lower", 20),
        figure(f"{name}: GetPreferredAllocation p99", percentile(cost.prefer_ms, 0.99), "ms", "lower"),
        figure(f"{name}: Allocate p50", percentile(cost.allocate_ms, 0.5), "ms", "lower"),
        figure(f"{name}: Allocate p99", percentile(cost.allocate_ms, 0.99), "ms", "lower", 10),
        figure(f"{name}: Xid to ListAndWatch, worst", max(cost.xid_ms), "ms", "lower", 1000),
    ]


@click.command()
@click.option(
    "--pods",
    type=Whole(1, 1_000_000),
    default=PODS_OF_AN_HOUR,
    show_default=True,
    help="How many pods come and go.",
)
@click.option(
    "--idle-s",
    type=Real(1, 86_400),
    default=60.0,
    show_default=True,
    help="How long idle CPU is measured.",
)
def main(pods: int, idle_s: float) -> None:
    """Measure what the agent costs its node."""
    found: list[Figure] = []
    with api_server() as cluster:
        for load in LOADS:

            async def trial(load: Load = load) -> Cost:
                async with an_agent(cluster, load) as running:
                    return await measure(cluster, running, pods, idle_s)

            found += figures(load, asyncio.run(trial()))
    publish(
        "agent",
        found,
        ["GPUs are simulated; an API server is real, a kubelet is the small one of the tests."],
    )


if __name__ == "__main__":
    sys.exit(run_program(main, program="python -m bench.agent"))
