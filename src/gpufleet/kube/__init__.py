"""Kubernetes on the wire: the client, the watches, and what its objects mean to us.

From the wire up: ``transport`` (the seam: bytes to a server and back), ``client`` (verbs, paging,
retries), ``mirror`` (a local copy of one kind), ``objects`` (the fields we read, typed) and
``codec`` (between objects and the model). ``keys`` are the names that people and other projects write,
``meanings`` what they mean. Nothing in here decides; ``scheduler`` does.
"""
