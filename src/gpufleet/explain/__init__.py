"""``gpufleet explain`` and ``gpufleet queues``: why a pod waits, how queues are used, and what would help.

An answer rests on the same reading (``cluster``) and the same engine as the scheduler's decisions, over a
picture of the cluster that is taken with read-only calls (``inquiry``). ``subject`` finds out what a name
means, ``answering`` puts the answer together: pods that have a node in ``placed_pods``, what the engine says
of those that wait in ``engine_run``, its findings about nodes in ``node_words``. ``answer`` is what comes
out; ``cli`` shows it.
"""
