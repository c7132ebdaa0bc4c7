"""Which GPUs a task means by the models it names.

A node list writes models in its own way ("V100M16", "Tesla-T4"), and the task list beside it should do the
same; where it does not, the catalogue says which of the nodes' models are meant. A name that is in neither is
a mistake: the task could never run, and no message would say why. ``trace_tasks`` asks here once for each
distinct request.
"""

from collections.abc import Collection
from difflib import get_close_matches

from gpufleet.model import gpu_model
from gpufleet.model.identifiers import GpuModelName
from gpufleet.model.model_errors import InputError

# Enough to see which spelling the list has.
SHOWN_MODELS = 5


class ModelNames:
    """The models of a node list, and those of the catalogue behind them."""

    def __init__(self, of_nodes: Collection[str]) -> None:
        self._of_nodes = sorted(of_nodes)
        self._by_catalogue: dict[str, list[str]] = {}
        for name in self._of_nodes:
            known = gpu_model.find(name)
            if known is not None:
                self._by_catalogue.setdefault(known.name, []).append(name)

    def accepted(self, names: Collection[str], column: str) -> tuple[GpuModelName, ...]:
        """The nodes' models that are meant, sorted, each once.

        A model that no node has but the catalogue knows is kept: it is no mistake to want it.
        """
        found = {meant for name in names for meant in self._meant(name, column)}
        return tuple(GpuModelName(name) for name in sorted(found))

    def _meant(self, name: str, column: str) -> list[str]:
        if name in self._of_nodes:
            return [name]
        matching = gpu_model.matching(name)
        if len(matching) == 1:
            known = matching[0].name
            return self._by_catalogue.get(known, [known])
        if matching:
            several = " or ".join(sorted(model.name for model in matching))
            raise InputError("the name of several GPU models", field=column, value=name, expected=several)
        raise InputError("no known GPU model", field=column, value=name, expected=self._suggestion(name))

    def _suggestion(self, name: str) -> str:
        nearest = get_close_matches(name.upper(), self._of_nodes, n=1)
        near_name = nearest[0] if nearest else gpu_model.nearest_name(name)
        if near_name is not None:
            return f"perhaps {near_name}"
        return f"models of the node list: {', '.join(self._of_nodes[:SHOWN_MODELS]) or 'it has none'}"
