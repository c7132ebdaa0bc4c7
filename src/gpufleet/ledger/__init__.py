"""The cost ledger: what happened to every part of every GPU, and every micro-unit of a bill in one row.

``interval_log`` takes ``versions`` of objects and gives intervals, in whatever order they come. ``node_hour``
accounts for one hour of one node: it asks ``buckets`` which bucket a part of a GPU is in, ``held_parts`` how
much of a GPU each pod holds, ``price_book`` what the node cost, and divides amounts without a remainder.
Nothing here reads a clock or a cluster: values go in, rows come out, so that the rows of an hour
can be made again from what happened in it.
"""
