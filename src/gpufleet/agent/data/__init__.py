"""What a node's folders hold: models and datasets, complete or not.

``data_folders`` reads the folders, ``hub_cache`` those that Hugging Face's libraries fill, and
``node_data_writer`` tells the cluster of it in NodeData.
"""
