"""The metrics APIs of Kubernetes, custom.metrics.k8s.io and external.metrics.k8s.io, for autoscalers.

``wire`` holds the documents, paths and selectors, ``callers`` says who asks and whether that is allowed,
``sources`` read values, ``metrics_api`` puts them together, and ``process`` runs all of it
(docs/metrics-apis.md).
"""
