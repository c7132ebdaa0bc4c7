"""Rows of the page's views from what is known of a cluster, for what one person may see. Pure.

``cards`` says who holds each card, ``nodes`` and ``fleet`` make rows of nodes and their sums, ``queues``,
``work`` and ``decisions`` those of the views of these names. The lines of ``gpufleet.overview.rows`` are what
they are made of, so that the page and the terminal say the same.
"""
