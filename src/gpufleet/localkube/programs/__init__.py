"""The programs of a local cluster: their releases, found on this machine, downloaded, or built from source.

``binaries`` finds them, ``releases`` is the table of versions, ``downloading`` and ``building`` get what is
missing.
"""
