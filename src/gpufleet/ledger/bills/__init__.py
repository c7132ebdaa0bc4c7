"""Providers' bills: read, matched to nodes, and divided among all who held them.

``focus_bill`` reads bills in the form of FOCUS, ``bill_lines`` makes whole micro-units of them,
``node_matching`` finds the nodes of a line by the provider's id, and ``billed_hours`` puts what was billed in
the place of prices.
"""
