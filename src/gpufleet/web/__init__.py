"""``gpufleet web``: the state of a fleet as a page in the browser, with what the person may see.

``documents`` has everything that goes over the wire. ``fleet_state`` follows the cluster, ``view_rows`` makes
the ``rows`` that one kind of ``rights`` shows, and ``streaming`` tells them. ``asking`` has the engine and
the doctor asked in a process of its own, ``details`` tells of one node or pod, ``login`` finds out who asks,
and ``routes`` answers. ``service`` keeps all of it current, ``process`` runs it.
"""
