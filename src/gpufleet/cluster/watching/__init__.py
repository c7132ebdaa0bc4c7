"""The objects that decisions depend on, as the API server has them.

``mirrors`` follows every kind with a watch and puts changes into the ``change_queue``; ``retained_kind``
keeps objects when their whole kind is taken away. ``picture`` lists every kind once, for a question that
needs no watch.
"""
