"""Where a pod or a gang goes, and why it goes nowhere.

``score`` says how good a node is, ``relations`` what other pods decide, ``choose`` picks node and devices for
a pod, ``refusal`` counts the reasons of nodes that refused, ``gangs`` places all members or none. Each
imports only those before it. Comes after ``queueing`` and ``learn``, and before ``lifecycle``.
"""
