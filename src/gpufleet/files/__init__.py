"""Files that users name: opened without waiting, read within limits.

``regular`` opens and reads them, ``unpacking`` unfolds a gzip, ``lines`` reads line by line. A path from
outside is opened nowhere else; ``tests/house/test_reading.py`` holds that. ``kernel_mark`` is a file of our
own: it says that all kernels of the engine are in the cache.
"""
