"""Operating GPU nodes: they become and stay what FleetPolicies say.

``node_facts`` is what is known of a node, ``assignment`` says which policy holds for it, ``plan`` what would
change there and how. ``statuses`` tells how far each node is, and ``fleet_state`` puts all of it together.
``applying`` writes what needs no drain, and ``service`` keeps nodes and statuses so. ``questions`` answers
``gpufleet policy`` without writing anything. ``rollout`` decides the steps of a rollout: ``rollouts`` asks it
at each round, ``rollout_observing`` says what is seen, ``rollout_drains`` what work is in the way, and
``rollout_actions`` writes ``rollout_objects``. ``mig_periods`` has cards cut by hour and day.
"""
