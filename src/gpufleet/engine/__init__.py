"""What to do: events of a fleet go in, instructions come out, without I/O, clock or randomness.

The root holds what is said to the engine and by it (``event``, ``instruction``, ``valuation``, ``policy``,
``engine_errors``) and what calls the stages: ``Engine`` in ``scheduler``, with ``step`` as the one entry
point; ``intake`` takes events in, ``cycle`` decides, ``event_log`` runs a log again, ``compile`` warms the
kernels.

``node_reasons`` has everything that is known of each reason of a node against a pod: its bit, which all
stages use, and its words, which ``explanations`` uses.

The folders are the stages, in this order; each imports only those before it (``lint-imports`` holds that):

1. ``arrays``: the state as arrays, and the compiled code that books pods in it.
2. ``state``: nodes, devices, shapes, pods and gangs as rows of these arrays.
3. ``queueing``: queues, quota, fair share, and which work is next. Beside it ``learn``: what work is typical.
4. ``place``: where a pod or a gang goes, and why it goes nowhere.
5. ``lifecycle``: all of that as one state, and the steps between waiting, placed, nominated and gone.
6. ``preempt``: which running pods end for the sake of others, or because they may run no longer.
7. ``reserve``: places held for work that must wait. Beside it ``defragment``: pods that move.
8. ``explanations``: what is said of waiting work, of queues and of reservations.
"""
