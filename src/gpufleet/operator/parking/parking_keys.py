"""Annotations and labels by which work is parked, our own and those of other projects."""

PARK_AFTER = "gpufleet.io/park-after"
"""On a workload or its namespace: how long it must be idle, such as 2h, or "never"."""

PARK_WARNING = "gpufleet.io/park-warning"
"""Beside it: how long before the end its owner is warned, such as 15m."""

KEEP_UNTIL = "gpufleet.io/keep-until"
"""On a workload: until when it is kept although it is idle, a time of the API."""

LAST_ACTIVITY = "gpufleet.io/last-activity"
"""On a workload: when a person last did something in it, written by what serves its sessions."""

STAMP = "gpufleet.io/parking"
"""On a workload: where it is on its way, written by gpufleet alone."""

PARKED = "gpufleet.io/parked"
"""The label of a workload that is parked or waking, so that these can be listed and watched."""

WAKE = "gpufleet.io/wake"
"""On a parked workload, with any value: it is to come back."""

KUBEFLOW_STOPPED = "kubeflow-resource-stopped"
"""Kubeflow runs no pod of a Notebook that has this annotation, whatever its value."""

KUBEFLOW_ACTIVITY = "notebooks.kubeflow.org/last-activity"
"""When a kernel was last busy, as Kubeflow's culler saw it."""

KUBEFLOW_CHECKED = "notebooks.kubeflow.org/last_activity_check_timestamp"
"""When Kubeflow's culler last looked."""

KSERVE_STOP = "serving.kserve.io/stop"
"""KServe runs nothing of an InferenceService with "true" here."""

PARKED_VALUE = "true"
NEVER = "never"
