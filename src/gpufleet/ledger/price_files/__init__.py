"""Prices from files: gpufleet's own table, and catalogues that others publish.

``recognised`` finds out which file it is. ``own_table`` reads ours, ``owned_nodes``
works prices of bought nodes out, ``catalogues`` the tables of SkyPilot
and gpuhunt, ``aws_price_list`` the price list of AWS; ``offers`` divides the price of an instance between its
GPUs and its host. Files are read, and never fetched.
"""
