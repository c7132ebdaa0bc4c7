"""Quota and fair share over a tree of queues: what may start, and which work is next.

``statement`` checks what is said of a queue, ``resources`` gives resources their columns, ``tree`` the queues
their rows, limits and paths. ``queue_charges`` knows the queue of each pod and keeps the charges
(``arrays.charge``) in step with events, ``available`` says what is left and which limit binds, ``gate`` asks
that for each workload.

``waiting`` holds the lines of waiting work. ``shares`` compares queues, with their past by ``past_use`` and
``decay``; ``turns`` says by that whose work is served next. What each queue is owed in the end is worked out
by ``entitlements`` with ``water_filling``, and listed by ``fair_shares``.

Comes after ``state`` and before ``place``, which finds room for what was admitted.
"""
