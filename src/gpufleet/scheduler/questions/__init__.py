"""Questions of people about the live cluster: why does this pod wait, and what would help?

An answer rests on the same reading and the same engine as the scheduler's decisions, over a picture of
the cluster that is taken with read-only calls (``inquiry``). ``facts`` puts the picture into the
scheduler's own books, ``subject`` finds out what a name means, ``answering`` puts the answer together:
where a pod stands from ``standing``, what the engine says of it from ``court``, the words and the way
out from ``causes``. ``answer`` is what comes out; ``cli`` shows it.
"""
