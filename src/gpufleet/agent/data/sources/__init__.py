"""Stores that are reached over HTTP: what each has of a model or a dataset, and how it comes into the cache.

``store_address`` reads what the operator wrote, ``http_reader`` asks these servers alone. ``file_tree``,
``bucket``, ``hub`` and ``registry`` are the four kinds of stores; each answers with an ``Offer`` (``offer``),
which ``remote_copying`` brings into the cache.
"""
