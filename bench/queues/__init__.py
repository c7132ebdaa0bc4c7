"""Queues at the sizes and with the workloads that other systems publish figures for.

``kueue`` replays its performance generators in virtual time, ``kai`` its scale cases on 500 nodes in the
engine, ``live`` the same cases on a control plane, and ``thousand_queues`` asks what a cycle costs with a
hundred thousand pods waiting. ``openb`` holds queues against FIFO and best-effort on a recorded trace.
``exhaustive`` and ``optimality`` hold decisions against what trying every set and an integer program find.
``__main__`` runs them and publishes.

What the engine takes is processor time, which on an idle machine is the time on the clock: it decides in one
thread and waits for nothing. What is ``live`` is measured on the clock.
"""
