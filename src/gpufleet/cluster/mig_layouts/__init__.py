"""MIG layouts of a cluster's cards: what objects of the API say of them, and what is written there.

``reported_cards`` reads the cards with what is in use of each, ``waiting_pods`` what pods wait for, and
``node_writer`` writes layouts on a Node.
"""
