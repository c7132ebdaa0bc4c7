"""Queues at the sizes and with the workloads that other systems publish figures for.

``kueue`` replays its performance generators in virtual time, ``kai`` its scale cases on 500 nodes, and
``thousand_queues`` asks what a cycle costs with a hundred thousand pods waiting. ``optimality`` holds
decisions against what an integer program finds.
"""
