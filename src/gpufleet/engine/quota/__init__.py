"""Who may have how much, and whose turn it is: quota and fair share over a tree of queues.

``statement`` judges what somebody says of a queue, ``resources`` gives resources their columns, ``tree``
the queues their rows, limits and paths, ``charge`` counts pods along those paths, ``queue_book`` keeps
all that in step with events, ``available`` says what is left and which limit binds, and ``gate`` asks
that of each workload.

``shares`` compares queues, with their past by ``past_use`` and ``decay``; ``turns`` says by that whose
work is served next. What all are owed in the end is worked out by ``owed`` with ``water_filling``, and
told by ``fair_shares``; ``report`` tells the rest.
"""
