"""An independent judge of what a fleet did: promises of safety, from API objects, kubelets and containers
alone.

It imports nothing else of gpufleet and only the standard library, so that a mistake of the scheduler or of
the agent is not made here again: it has its own reading of objects and its own arithmetic of quotas, written
after docs/queues.md. ``audit`` is where to begin; ``python -m gpufleet.auditor`` judges a file.
"""
