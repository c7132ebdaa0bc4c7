"""The cluster as values: what the API server holds, read into what the engine is told.

This package stands above ``engine`` and ``kube`` and below every shell: the live scheduler, ``explain``,
``whatif`` and ``defragment`` read a cluster here, with the same code, so they agree on what it means.

``watching`` has the kinds that decisions depend on, followed as mirrors or listed once as a picture.
``nodes``, ``queues`` and ``pods`` read their objects and remember what the engine was told of each;
``claims`` reads claims of devices, which the engine does not hear of yet.
``engine_events`` puts changes of objects into the order in which the engine hears of them. ``facts`` is all
of this for one picture. ``snapshots`` keeps a picture in a file. ``scheduler_lease`` says which scheduler
leads. Nothing here decides, and nothing writes to a cluster.
"""
