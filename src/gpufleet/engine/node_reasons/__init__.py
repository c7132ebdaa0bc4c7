"""Why a node cannot take a pod: one module a reason, collected by ``table``.

A module has the reason's bit, which compiled code reads (``BIT``), and all that is said of it (``REASON``).
A new reason is such a module and its name in ``table``.
"""
