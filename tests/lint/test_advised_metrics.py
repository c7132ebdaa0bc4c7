"""The metrics that advice names are served by gpufleet's own exporter, without being asked for."""

import re

from gpufleet.agent.exporter.counters import DEFAULT
from gpufleet.doctor.checks import missing_alerts
from tests.lint.linting import report_of

ON_UTILIZATION = """\
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: a}
spec:
  scaleTargetRef: {name: a}
  triggers:
    - {type: prometheus, metadata: {query: avg(DCGM_FI_DEV_GPU_UTIL), threshold: "70"}}
"""
NAME = re.compile(r"DCGM_FI_\w+")
SERVED = {counter.name for counter in DEFAULT}


def test_what_an_autoscaler_is_advised_to_look_at_is_served() -> None:
    (finding,) = (one for one in report_of(ON_UTILIZATION).findings if one.rule.id == "GPU028")
    assert set(NAME.findall(finding.advice)) <= SERVED
    assert NAME.search(finding.advice)


def test_what_the_doctors_alerts_look_at_is_served() -> None:
    names = set(NAME.findall(missing_alerts._RULE))
    assert names <= SERVED
    assert names
