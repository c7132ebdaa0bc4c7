"""The Common Expression Language as Kubernetes has it, for the selectors of devices in resource claims.

``parsing`` reads a text, ``checking`` gives it types, ``planning`` makes steps of it that count their cost,
and ``selector`` is what other packages use. Verdict and cost equal those of Kubernetes' own library:
two schedulers on one cluster must read one selector alike. No library on PyPI has Kubernetes' functions and
costs (docs/dependencies.md).
"""
