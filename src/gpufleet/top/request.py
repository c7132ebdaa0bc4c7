"""What was asked of ``gpufleet top``, checked: which view, of what, in which order, and where use comes
from.
"""

import msgspec

from gpufleet.cluster.settings import LEASE_NAMESPACE, SCHEDULER_NAME, Settings
from gpufleet.kube.connection import ClusterChoice
from gpufleet.model.label_advice import nearest
from gpufleet.model.labels import LabelSelector
from gpufleet.model.model_errors import InputError
from gpufleet.overview.readings.engine_protocol import EngineQuestion
from gpufleet.top.labelled import WITHOUT_LABELS
from gpufleet.top.screen.choice import Choice
from gpufleet.top.screen.views import VIEWS
from gpufleet.usage.prometheus.access import Access


class TopRequest(msgspec.Struct, frozen=True):
    """The request. Without ``prometheus`` agents are asked for use; ``interval_s`` is the time between two
    reads.
    """

    view: str = "node"
    cluster: ClusterChoice = ClusterChoice()
    namespaces: tuple[str, ...] = ()
    all_namespaces: bool = False
    sort_by: str = ""
    reverse: bool = False
    filter: str = ""
    selector: LabelSelector | None = None
    wide: bool = False
    interval_s: float = 2.0
    prometheus: Access | None = None
    scheduler_name: str = SCHEDULER_NAME
    lease_namespace: str = LEASE_NAMESPACE

    @property
    def settings(self) -> Settings:
        """The scheduler that is meant."""
        return Settings(
            identity="top", scheduler_name=self.scheduler_name, lease_namespace=self.lease_namespace
        )

    @property
    def of_engine(self) -> EngineQuestion:
        """The cluster and the scheduler, as the process that asks the engine is told."""
        path = self.cluster.kubeconfig
        return EngineQuestion(
            "" if path is None else str(path), self.cluster.context, self.scheduler_name, self.lease_namespace
        )

    def choice(self) -> Choice:
        """What is chosen at first. Raises InputError for a column, or labels, that the view lacks."""
        view = VIEWS[self.view]
        if self.sort_by and view.column(self.sort_by) is None:
            names = [one.name for one in view.columns]
            near = nearest(self.sort_by, names)
            expected = f"one of {', '.join(names)}{f'; did you mean {near}?' if near else ''}"
            raise InputError("no such column", field="--sort-by", value=self.sort_by, expected=expected)
        if self.selector is not None and self.view in WITHOUT_LABELS:
            views = "the view node, pod or idle"
            raise InputError(
                f"lines of the view {self.view} have no labels", field="--selector", expected=views
            )
        sorts = {self.view: self.sort_by} if self.sort_by else {}
        return Choice(self.view, sorts, self.reverse, self.filter, self.wide)
