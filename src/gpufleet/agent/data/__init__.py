"""What a node's folders hold: models and datasets, complete or not, and how more of them come there.

``data_folders`` reads the folders, ``hub_cache`` those that Hugging Face's libraries fill, and
``node_data_writer`` tells the cluster of it in NodeData. ``stager`` follows what work will read that is to
start here: ``staging_cache`` says what is missing, ``eviction`` what leaves for it, ``copying`` copies it.
"""
