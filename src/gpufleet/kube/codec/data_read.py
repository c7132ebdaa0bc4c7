"""Which models and datasets a pod reads though it has no annotation of ours that says so.

Servers name their model in the command line, KServe in the argument of its storage initializer and in an
annotation, Fluid the dataset in a label of the pod or of the claim. A claim may have our annotation, for
every pod that mounts it. All of it is a guess of what is read first, so it is only ever preferred, and what
the pod itself says in ``gpufleet.io/data`` goes before it.
"""

from collections.abc import Iterable, Iterator

from gpufleet.kube import keys
from gpufleet.kube.codec.data_needs import MAXIMUM_ASKS, read_data_needs
from gpufleet.kube.meanings.model_servers import model_of_address
from gpufleet.kube.objects.node_data import DATASET, MODEL
from gpufleet.kube.objects.pod import Pod
from gpufleet.kube.objects.storage import PersistentVolumeClaim
from gpufleet.model.data import DataAsk
from gpufleet.model.model_errors import InputError


def data_of_pod(pod: Pod) -> tuple[DataAsk, ...]:
    """What the pod's own containers, labels and annotations say that it reads."""
    return _bounded((*_models(pod), *_datasets(pod.metadata.labels)))


def fluid_labels(labels: Iterable[str]) -> list[str]:
    """The labels of a pod that name datasets of Fluid."""
    return sorted(
        one
        for one in labels
        if one.startswith(keys.FLUID_DATASET_BEGIN) and one.endswith(keys.FLUID_DATASET_END)
    )


def data_of_claim(claim: PersistentVolumeClaim) -> tuple[DataAsk, ...]:
    """What lies in a claim's volume, as the claim says. What cannot be understood counts as not said."""
    metadata = claim.metadata
    try:
        told = read_data_needs(metadata.annotations).asks
    except InputError:
        # A wrong word of a claim must not hold back the pods that mount it.
        told = ()
    if told:
        return told
    of_fluid = f"{keys.FLUID_CLAIM_BEGIN}{metadata.namespace}-{metadata.name}"
    return (DataAsk(f"{DATASET}/{metadata.name}"),) if of_fluid in metadata.labels else ()


def _bounded(asks: Iterable[DataAsk]) -> tuple[DataAsk, ...]:
    return tuple(dict.fromkeys(asks))[:MAXIMUM_ASKS]


def _models(pod: Pod) -> Iterator[DataAsk]:
    source = model_of_address(pod.metadata.annotations.get(keys.KSERVE_SOURCE, ""))
    for told in (source, *(one.model for one in (*pod.spec.init_containers, *pod.spec.containers))):
        name, _, revision = told.partition("@")
        if name:
            yield DataAsk(f"{MODEL}/{name}", revision)


def _datasets(labels: Iterable[str]) -> Iterator[DataAsk]:
    for label in fluid_labels(labels):
        name = label.removeprefix(keys.FLUID_DATASET_BEGIN).removesuffix(keys.FLUID_DATASET_END)
        if name:
            yield DataAsk(f"{DATASET}/{name}")
