"""``gpufleet admission plan``: from options to the answer."""

import asyncio
import datetime as dt

import msgspec

from gpufleet.admission.images import ImagePolicy, registries_of
from gpufleet.admission.plan.answer import AdmissionPlan
from gpufleet.admission.plan.judging import Question, plan_from
from gpufleet.admission.plan.reading import of_cluster, of_files
from gpufleet.admission.policies import Action
from gpufleet.completion.additions import completion_of
from gpufleet.kube.connection import ClusterChoice


class PlanOptions(msgspec.Struct, frozen=True):
    """The options of the command. ``files`` is empty where a cluster is asked."""

    files: tuple[str, ...]
    cluster: ClusterChoice
    namespaces: tuple[str, ...]
    mode: str
    images: str | None
    registries: tuple[str, ...]
    completes: bool
    scheduler_name: str
    left_out: tuple[str, ...]
    pool_taints: tuple[str, ...]
    runtime_class: str
    shared_memory: bool


def admission_plan(options: PlanOptions, today: dt.date) -> AdmissionPlan:
    """What would be refused, warned of and completed. Raises InputError for bad options and files."""
    names, left_out = options.scheduler_name, options.left_out
    taints, memory = options.pool_taints, options.shared_memory
    # Bad options are told before a cluster is asked.
    completion = completion_of(names, left_out, taints, None, shared_memory=memory)
    images = ImagePolicy(registries_of(options.registries))
    chosen = tuple(dict.fromkeys(options.namespaces))
    if options.files:
        read = of_files(options.files, options.runtime_class)
    else:
        read = asyncio.run(of_cluster(options.cluster, chosen, options.runtime_class))
    question = Question(
        Action(options.mode),
        today,
        msgspec.structs.replace(completion, runtime_class=read.runtime_class),
        None if options.images is None else Action(options.images),
        images,
        options.completes,
        chosen,
    )
    return plan_from(read.objects, question, read.notes)
