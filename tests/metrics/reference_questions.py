"""What both the reference adapter and gpufleet are asked, and the values that both have."""

CUSTOM = "/apis/custom.metrics.k8s.io"
EXTERNAL = "/apis/external.metrics.k8s.io"
PODS = {"web-0": {"app": "web", "tier": "front"}, "web-1": {"app": "web"}, "db-0": {"app": "db"}}
"""Pods of the namespace default, with their labels."""
NODE = "node-0"
QUEUE = "team-a"

VALUES = {
    "namespaces/default/pods/web-0/queue_length": ("5", ""),
    "namespaces/default/pods/web-1/queue_length": ("1500m", ""),
    "namespaces/default/pods/db-0/queue_length": ("7k", ""),
    "namespaces/default/pods/web-0/by_model": ("3", "model=large"),
    "namespaces/default/fleetqueues.gpufleet.io/team-a/queue_length": ("12", ""),
    "nodes/node-0/queue_length": ("33", ""),
}
"""Values by the path below the group's version, with the labels of their series."""

CUSTOM_QUESTIONS = (
    "namespaces/default/pods/*/queue_length",
    "namespaces/default/pods/*/queue_length?labelSelector=app%3Dweb",
    "namespaces/default/pods/*/queue_length?labelSelector=app+in+(web,db),tier",
    "namespaces/default/pods/*/queue_length?labelSelector=app!%3Dweb",
    "namespaces/default/pods/*/queue_length?labelSelector=!tier",
    "namespaces/default/pods/*/queue_length?labelSelector=app%3D%3Dnone",
    "namespaces/default/pods/*/queue_length?labelSelector=%3D%3D",
    "namespaces/default/pods/web-0/queue_length",
    "namespaces/default/pods/web-1/queue_length",
    "namespaces/default/pods/db-0/queue_length",
    "namespaces/default/pods/absent/queue_length",
    "namespaces/other/pods/*/queue_length",
    "namespaces/other/pods/web-0/queue_length",
    "namespaces/default/pods/web-0/nobody_has_it",
    "namespaces/default/pods/*/by_model?metricLabelSelector=model%3Dlarge",
    "namespaces/default/pods/*/by_model?metricLabelSelector=model%3Dsmall",
    "namespaces/default/pods/web-0/by_model?metricLabelSelector=model%3Dlarge",
    "namespaces/default/pods/web-0/by_model?metricLabelSelector=model%3Dsmall",
    "namespaces/default/pods/web-0/by_model?metricLabelSelector=model+in+(large,small)",
    "namespaces/default/pods/web-0/by_model?metricLabelSelector=%3D",
    "namespaces/default/fleetqueues.gpufleet.io/team-a/queue_length",
    "namespaces/default/fleetqueues.gpufleet.io/absent/queue_length",
    "fleetqueues.gpufleet.io/team-a/queue_length",
    "nodes/node-0/queue_length",
    "nodes/*/queue_length",
    "nodes/absent/queue_length",
    "namespaces/default/metrics/queue_length",
    "namespaces/default/metrics/nobody_has_it",
    "namespaces/default/bogus/one/queue_length",
    "namespaces/default/pods/web-0",
    "namespaces/default/pods",
    "namespaces",
    "",
)
EXTERNAL_QUESTIONS = (
    "namespaces/default/my-external-metric",
    "namespaces/other/my-external-metric",
    "namespaces/default/my-external-metric?labelSelector=foo%3Dbar",
    "namespaces/default/my-external-metric?labelSelector=foo+in+(bar,baz)",
    "namespaces/default/my-external-metric?labelSelector=foo%3Dnone",
    "namespaces/default/my-external-metric?labelSelector=%3D",
    "namespaces/default/other-external-metric",
    "namespaces/default/nobody-has-it",
    "namespaces/default",
    "namespaces/default/one/two",
    "",
)
EXTERNAL_VALUES: tuple[tuple[str, dict[str, str], str], ...] = (
    ("my-external-metric", {"foo": "bar"}, "42"),
    ("my-external-metric", {"foo": "baz"}, "43"),
    ("other-external-metric", {}, "44"),
)
"""Those that the reference adapter has built in."""

TARGETS = (
    "/apis",
    "/apis/custom.metrics.k8s.io",
    "/apis/external.metrics.k8s.io",
    "/apis/other.example.com",
    *(f"{CUSTOM}/v1beta2/{one}".rstrip("/") for one in CUSTOM_QUESTIONS),
    *(f"{CUSTOM}/v1beta1/{one}".rstrip("/") for one in CUSTOM_QUESTIONS),
    f"{CUSTOM}/v1/namespaces/default/pods/web-0/queue_length",
    *(f"{EXTERNAL}/v1beta1/{one}".rstrip("/") for one in EXTERNAL_QUESTIONS),
)
