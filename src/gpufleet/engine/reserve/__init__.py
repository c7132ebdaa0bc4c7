"""Work that must wait holds the place where it will start first; other work runs there until then.

``expected_ends`` knows when running work is expected to end, ``planning`` finds the place, ``reservations``
keeps it (as a booking, so that every rule that places work knows it), ``backfill`` lets work run there that
ends before, or that may be interrupted (``guests``). Comes after ``preempt`` and before ``explanations``.
"""
