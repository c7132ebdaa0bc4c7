"""``gpufleet plan --pools`` and ``--cluster-pools``: what Karpenter may buy, in place of the whole table."""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpufleet.kube.connection import ClusterChoice
    from gpufleet.plan.instance_types import Catalogue
    from gpufleet.plan.pools.offers import Offers


def read_offers(
    catalogue: "Catalogue", file: Path | None, cluster: "ClusterChoice | None", without: Collection[str]
) -> "Offers | None":
    """What the NodePools of a file, or of a cluster, offer without some of them; None where none are asked
    about. Raises InputError.
    """
    if file is None and cluster is None:
        return None
    from gpufleet.plan.pools.offers import offers_of
    from gpufleet.plan.pools.sources import pools_of_cluster, pools_of_file

    found = pools_of_file(str(file)) if cluster is None else pools_of_cluster(cluster)
    return offers_of(catalogue, found, without)
