"""Quotas on CPU or memory that refuse GPU pods because these do not say how much of it they ask for."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Layer, Point, Remedy
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.views.refusals import RefusalCause, refusals

_DEFAULTS = """\
apiVersion: v1
kind: LimitRange
metadata:
  name: defaults
  namespace: {namespace}
spec:
  limits:
    - type: Container
      defaultRequest:
        cpu: "4"
        memory: 16Gi
      default:
        cpu: "8"
        memory: 32Gi
"""


def judge(facts: Facts) -> Iterator[Failure]:
    """Each workload that says too little."""
    for one in refusals(facts, RefusalCause.QUOTA_DEMANDS):
        quota = f"ResourceQuota {one.namespace}/{one.words['name']}"
        yield Failure(
            f"{one.workload.title}: {quota} wants every pod to specify {one.words['what']}",
            (one.workload.title, quota),
            (f"{one.maker.title}: {one.message}",),
            (
                Remedy("write these requests and limits into the pod template"),
                Remedy(
                    "or let the namespace give defaults; adapt the amounts",
                    manifest=_DEFAULTS.format(namespace=one.namespace),
                ),
            ),
            one.affects,
        )


CHECK = Check(
    "quota-demands",
    Point.QUOTAS,
    Layer.ADMISSION,
    "GPU pods say what the namespace's quotas count",
    "Where a quota counts CPU or memory, a pod that does not ask for any is refused.",
    judge,
    written=True,
)
