"""Operating GPU nodes: they become and stay what FleetPolicies say.

``node_facts`` is what is known of a node, ``assignment`` says which policy holds for it, ``plan`` what would
change there and how. ``applying`` writes what needs no drain, ``statuses`` tells how far each node is, and
``service`` keeps both true. ``questions`` answers ``gpufleet policy`` without writing anything.
"""
