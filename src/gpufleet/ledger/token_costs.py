"""What a million tokens of a serving engine cost: the cost of its pods by the tokens that went in and out.

All that a pod held counts, also while it waited for requests: that is what the tokens cost. The cost of a pod
that serves several models, such as a base model and adapters, is divided among them by their tokens. Work
that told no tokens is not in the answer.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from gpufleet.ledger.bills.billed_hours import WITHOUT_BILL, Division
from gpufleet.ledger.costs import LABEL, Group, Key, cost_of
from gpufleet.ledger.counters import Growth, readings
from gpufleet.ledger.interval_log import ByNode
from gpufleet.ledger.price_book import PriceBook
from gpufleet.ledger.spans import Span
from gpufleet.model.model_errors import InputError
from gpufleet.model.money import apportion, rounded
from gpufleet.usage.prometheus.client import Source

MODEL = "model"
"""The grouping by the name that the engine has for what it serves; "" where it tells none."""

GROUPINGS = (MODEL, "queue", "namespace", "owner", "gang", "job", "team", "pod")
"""What tokens can be put together by, beside labels: the counters are of pods and models."""

PROMPT = ("vllm:prompt_tokens_total", "sglang:prompt_tokens_total", "tgi_request_input_length_sum")
"""Tokens that came in: of vLLM, SGLang, and Text Generation Inference."""

GENERATED = (
    "vllm:generation_tokens_total",
    "sglang:generation_tokens_total",
    "tgi_request_generated_tokens_sum",
)
"""Tokens that went out, of the same."""

LABELS = "namespace,pod,model_name,engine"
"""What tells counters apart: vLLM has one an engine where several share a server."""

MILLION = 1_000_000
"""Prices of tokens are told by the million."""


class TokenCost(msgspec.Struct, frozen=True):
    """Tokens of a group and what its pods cost; ``amount_micro`` is None where they have no price."""

    key: Key
    prompt: int
    generated: int
    quantity: int
    amount_micro: int | None

    @property
    def tokens(self) -> int:
        """All of them."""
        return self.prompt + self.generated

    @property
    def per_million_micro(self) -> int | None:
        """What a million tokens cost; None without a price, and where there were none."""
        if self.amount_micro is None or not self.tokens:
            return None
        return rounded(self.amount_micro * MILLION, self.tokens)


class _Served(msgspec.Struct):
    """Tokens of one model on one pod."""

    prompt: int = 0
    generated: int = 0

    @property
    def tokens(self) -> int:
        return self.prompt + self.generated


_ByModel = dict[str, _Served]


def check_groupings(by: Sequence[str]) -> None:
    """Raises InputError for a grouping that tokens do not have."""
    for name in by:
        if name not in GROUPINGS and not name.startswith(LABEL):
            expected = f"{', '.join(GROUPINGS)}, or label:KEY"
            raise InputError("no grouping of tokens", field="--by", value=name, expected=expected)


def token_costs(
    source: Source,
    intervals: ByNode,
    book: PriceBook,
    span: Span,
    by: Sequence[str],
    division: Division = WITHOUT_BILL,
) -> tuple[TokenCost, ...]:
    """The cost of tokens of a time, by groups, what costs most first. Raises InputError and WorldError."""
    check_groupings(by)
    served = _served(source, intervals, span)
    of_pods = tuple(name for name in by if name != MODEL)
    groups = cost_of(intervals, book, span, (*of_pods, "pod"), division).groups
    by_pod: dict[str, list[Group]] = defaultdict(list)
    for group in groups:
        if group.key[-1] in served:
            by_pod[group.key[-1] or ""].append(group)
    parts = [part for pod, some in by_pod.items() for part in _of_pod(some, served[pod], by)]
    found = _put_together(parts)
    return tuple(sorted(found, key=lambda one: (-(one.amount_micro or 0), [part or "" for part in one.key])))


def _served(source: Source, intervals: ByNode, span: Span) -> dict[str, _ByModel]:
    """Tokens by pod, as "namespace/name", and by model."""
    began: dict[str, int] = {}
    for node in intervals.each():
        for holding in node.records.host_holdings:
            pod = node.pods[holding.pod_uid]
            name = f"{pod.namespace}/{pod.name}"
            began[name] = min(began.get(name, holding.span.from_us), holding.span.from_us)
    found: dict[str, _ByModel] = defaultdict(lambda: defaultdict(_Served))
    growth = Growth(span)
    for metric in (*PROMPT, *GENERATED):
        for labels, at_us, value in readings(source, metric, LABELS, span):
            pod_name = f"{labels.get('namespace', '')}/{labels.get('pod', '')}"
            model = labels.get("model_name", "")
            is_new = began.get(pod_name, 0) >= span.from_us
            key = (metric, pod_name, model, labels.get("engine", ""))
            grown = growth.of(key, at_us, round(value), is_new=is_new)
            if grown and metric in PROMPT:
                found[pod_name][model].prompt += grown
            elif grown:
                found[pod_name][model].generated += grown
    return found


def _of_pod(groups: Sequence[Group], models: _ByModel, by: Sequence[str]) -> Iterator[TokenCost]:
    """The groups of one pod's name by model: money and hours by tokens, and tokens by hours."""
    names = sorted(models)
    hours = (
        [group.quantity for group in groups] if any(group.quantity for group in groups) else [1] * len(groups)
    )
    prompts = {name: apportion(models[name].prompt, hours) for name in names}
    generated = {name: apportion(models[name].generated, hours) for name in names}
    weights = [models[name].tokens for name in names]
    for place, group in enumerate(groups):
        quantities = apportion(group.quantity, weights)
        amount = group.amount_micro
        amounts = [None] * len(names) if amount is None else apportion(amount, weights)
        for name, quantity, part in zip(names, quantities, amounts, strict=True):
            key = _key(group.key[:-1], name, by)
            yield TokenCost(key, prompts[name][place], generated[name][place], quantity, part)


def _key(of_pod: Key, model: str, by: Sequence[str]) -> Key:
    parts = iter(of_pod)
    return tuple(model if name == MODEL else next(parts) for name in by)


def _put_together(parts: Iterable[TokenCost]) -> Iterator[TokenCost]:
    sums: dict[Key, TokenCost] = {}
    for one in parts:
        known = sums.get(one.key, TokenCost(one.key, 0, 0, 0, None))
        amount = known.amount_micro
        if one.amount_micro is not None:
            amount = one.amount_micro + (amount or 0)
        sums[one.key] = TokenCost(
            one.key,
            known.prompt + one.prompt,
            known.generated + one.generated,
            known.quantity + one.quantity,
            amount,
        )
    yield from sums.values()
