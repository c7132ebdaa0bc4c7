"""A change of driver goes through the nodes of a policy: one canary first, then so many at a time.

``node_step`` leads one node from its cordon to its return, ``rollout_step`` says which nodes begin and when
a rollout turns back. Both are pure: they get what the objects say (``observed``) and answer with what is to
be done (``actions``). All they must remember is in the ``Stamp`` of a node and the ``Progress`` of a policy
(``stamp``), so that a process that was killed after any write goes on where it was, with the same deadlines.
``operator.rollouts`` carries the actions out.
"""
