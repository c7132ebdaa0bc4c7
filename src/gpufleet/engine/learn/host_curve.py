"""How far CPU or memory will last for idle GPUs: the part of the work a host can still serve.

If x of the resource is left per GPU of worth, the requests that need no more than x are served in
full and the others in proportion: E[min(1, x / need)], each request weighing by its GPUs' worth.
Where no request needs the resource, any amount serves all, none included.
A node serves several requests, so what counts is nearer to their mean than single needs are; the
needs are drawn towards it as the mean of ``TASKS_A_NODE`` draws would be.
"""

import math

import numpy as np
import numpy.typing as npt

from gpufleet.engine.valuation import CURVE_STEPS, FULL_SHARE, SPAN_MOST, HostCurve

TASKS_A_NODE = 8
"""About as many tasks as an 8-GPU node runs; between 4 and 16 the result hardly changes."""

SPAN_MEANS_MAX = 8.0
"""The curve ends at this many times the mean need; beyond it a host is rich."""

NEED_LEAST = 0.05
"""No need is drawn below this part of the mean."""

Float64Array = npt.NDArray[np.float64]


def host_curve(needs: Float64Array, worths: Float64Array, weights: Float64Array) -> HostCurve:
    """The curve of one resource, from what each request needs of it and what its GPUs are worth."""
    need = needs / worths
    weight = weights * worths / (weights * worths).sum()
    mean = float((need * weight).sum())
    if mean == 0:
        return HostCurve(1, (FULL_SHARE,) * (CURVE_STEPS + 1))
    drawn = mean + (need - mean) / math.sqrt(TASKS_A_NODE)
    # Needs are divided by below, so none may be 0.
    drawn = np.maximum(drawn, NEED_LEAST * mean + 1e-9)
    span = max(1, int(min(float(drawn.max()), SPAN_MEANS_MAX * mean, SPAN_MOST)))
    left = np.linspace(0, span, CURVE_STEPS + 1)
    served = (np.minimum(1, left[:, None] / drawn[None, :]) * weight[None, :]).sum(axis=1)
    return HostCurve(span, tuple(np.rint(served * FULL_SHARE).astype(np.int64).tolist()))
