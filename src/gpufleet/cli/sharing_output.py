"""How ``gpufleet advise sharing`` prints its advice: for people, or as JSON."""

import textwrap
from collections import Counter
from decimal import Decimal

from gpufleet.advise.sharing.choosing import TYPICAL_PERCENT, Choice, Mode, shown
from gpufleet.advise.sharing.manifest import agent_config, label_commands, node_pools, plugin_config, pod_part
from gpufleet.advise.sharing.pools import Pool, SharingPlan, percent
from gpufleet.cli.output import echo_json, echo_line
from gpufleet.cli.sharing_question import Advice
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.phrases import counted

SCHEMA = "gpufleet.io/advise-sharing/v1"
HOURS_A_MONTH = 730
"""365 days of 24 hours over twelve months, as clouds count."""

# Sentences are wrapped here also on wider terminals: longer lines are hard to read.
WIDTH = 110


def show(advice: Advice, *, as_json: bool) -> None:
    """Print it on standard output, notes about the tables on standard error."""
    for note in advice.notes:
        echo_line(note, err=True)
    if as_json:
        echo_json(document(advice))
        return
    # Texts to apply have several lines.
    for line in "\n".join(lines(advice)).split("\n"):
        echo_line(line)


def money_a_month(advice: Advice) -> Decimal | None:
    """What the GPUs that become free cost in a month; None if the price of one of them is not known."""
    saved = saved_gpus(advice.plan)
    if any(model not in advice.prices for model, count in saved.items() if count):
        return None
    return sum(
        (advice.prices[model] * count * HOURS_A_MONTH for model, count in saved.items() if count), Decimal(0)
    )


def saved_gpus(plan: SharingPlan) -> dict[str, int]:
    """The GPUs that become free, by model."""
    now = Counter[str]()
    for pool in plan.pools:
        now[pool.gpu_model] += len(pool.on_device)
    return {model: count - now[model] for model, count in plan.today_gpus.items()}


def document(advice: Advice) -> dict[str, object]:
    """The advice as values of JSON; fields are only ever added."""
    plan, pools = advice.plan, node_pools(advice.plan)
    money = money_a_month(advice)
    return {
        "schema": SCHEMA,
        "instants": advice.instants,
        "stepSeconds": advice.step_s,
        "riskMaxPct": advice.risk_max_pct,
        "gpusToday": plan.today_gpus,
        "gpusSaved": saved_gpus(plan),
        "savedAMonth": None if money is None or not advice.prices else str(money),
        "workloads": [_workload(one, pod_part(one, pools)) for one in plan.choices],
        "pools": [_pool(one) for one in plan.pools],
        "unplacedToday": list(plan.unplaced_today),
        "unplaced": list(plan.unplaced),
        "agentConfig": agent_config(pools) if pools else "",
        "labelCommands": list(label_commands(pools)),
        "pluginConfigs": {pool.name: text for pool in pools if (text := plugin_config(pool))},
    }


def _workload(choice: Choice, pod: str) -> dict[str, object]:
    work = choice.workload
    return {
        "name": work.name,
        "kind": work.kind.value,
        "gpuModel": work.gpu_model,
        "podsAtATime": len(work.replicas),
        "gpusToday": work.gpus_today,
        "meanMilli": work.mean_milli,
        "p95Milli": work.percentile(TYPICAL_PERCENT),
        "peakMilli": max(work.uses),
        "memoryPeakMiB": work.memory_peak_mib,
        "mode": choice.mode.value,
        "migProfile": choice.profile,
        "reasons": list(choice.reasons),
        "pod": pod,
    }


def _pool(pool: Pool) -> dict[str, object]:
    only = {name for names in pool.instances.values() for name in names}
    return {
        "mode": pool.mode.value,
        "gpuModel": pool.gpu_model,
        "migProfile": only.pop() if len(only) == 1 else "",
        "migInstances": {device: list(names) for device, names in pool.instances.items()},
        "holdersMax": pool.holders,
        "gpus": list(pool.on_device),
        "workloads": list(pool.workloads),
        "risk": float(pool.risk),
    }


def lines(advice: Advice) -> list[str]:
    """The advice for a person: the sum, each workload with its reasons, the pools, and what to apply."""
    plan = advice.plan
    found = [_sum(advice), ""]
    rows: list[tuple[str, ...]] = [("workload", "pods", "mean", "p95", "peak", "memory MiB", "advice")]
    rows += [_row(one) for one in plan.choices]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    found += [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    found.append("")
    for choice in plan.choices:
        found += _wrapped(f"{choice.workload.name}: ", "; then ".join(choice.reasons))
    found.append("")
    for pool in plan.pools:
        found += _wrapped(f"{_offered(pool)}: ", _arithmetic(pool))
    for what, pods in (("as it is", plan.unplaced_today), ("as advised", plan.unplaced)):
        if pods:
            found += _wrapped(f"No room {what}: ", ", ".join(pods))
    return [*found, *_to_apply(plan)]


def _sum(advice: Advice) -> str:
    plan, saved, money = advice.plan, saved_gpus(advice.plan), money_a_month(advice)
    today, freed = sum(plan.today_gpus.values()), sum(saved.values())
    worth = f", {money:,.2f} a month of {HOURS_A_MONTH} hours" if money is not None and advice.prices else ""
    return f"{counted(today, 'GPU')} today, {plan.gpus} as advised: {freed} free for others{worth}."


def _row(choice: Choice) -> tuple[str, ...]:
    work = choice.workload
    words = f"{choice.mode.value} {choice.profile}" if choice.mode is Mode.MIG else choice.mode.value
    return (
        work.name,
        str(len(work.replicas)),
        shown(work.mean_milli),
        shown(work.percentile(TYPICAL_PERCENT)),
        shown(max(work.uses)),
        str(work.memory_peak_mib),
        words,
    )


def _offered(pool: Pool) -> str:
    words = f"{pool.mode.value} on {pool.gpu_model}"
    if pool.mode in (Mode.WHOLE, Mode.FRACTION, Mode.MIG):
        return words
    return f"{words}, {pool.holders} a GPU"


def _arithmetic(pool: Pool) -> str:
    count = len(pool.on_device)
    if pool.mode is Mode.WHOLE:
        return counted(count, "GPU")
    beyond = {Mode.MIG: "a pod's slices", Mode.MPS: "100 % or a client's part"}.get(pool.mode, "100 %")
    where = ", ".join(_shared_as(pool, device) for device in pool.on_device)
    return (
        f"{counted(pool.gpus_today, 'GPU')} today, {count} shared ({where}); "
        f"wanted beyond {beyond} in at most {percent(pool.risk)} of the instants"
    )


def _shared_as(pool: Pool, device: DeviceId) -> str:
    """The GPU, and into what it is cut."""
    counts = Counter(pool.instances.get(device, ()))
    cut = ", ".join(f"{counts[name]} x {name}" for name in sorted(counts, reverse=True))
    return f"{device}: {cut}" if cut else device


def _to_apply(plan: SharingPlan) -> list[str]:
    pools = node_pools(plan)
    if not pools:
        return ["", "Nothing to apply: whole GPUs are right."]
    found = ["", "# The agent's sharing configuration:", agent_config(pools).rstrip()]
    found += ["", *label_commands(pools)]
    for pool in pools:
        if text := plugin_config(pool):
            found += ["", f"# Or with NVIDIA's device plugin, on {', '.join(pool.nodes)}:", text.rstrip()]
    for choice in plan.choices:
        if choice.mode is not Mode.WHOLE:
            found += ["", f"# Pods of {choice.workload.name}:", pod_part(choice, pools).rstrip()]
    return found


def _wrapped(head: str, text: str) -> list[str]:
    return textwrap.wrap(
        head + text, WIDTH, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False
    )
