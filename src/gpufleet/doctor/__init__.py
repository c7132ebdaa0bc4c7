"""``gpufleet doctor``: walks a live cluster and says what is wrong with its GPUs, first causes first.

``live`` lists the cluster, ``facts`` is what is known of it, ``views`` read it, ``checks`` judge one by one,
``diagnosis`` puts what they found in the order of cause and effect, ``report`` tells it to programs,
``command`` ties it together. Nothing is written to the cluster.
"""
