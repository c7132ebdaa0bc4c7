"""Files that users name: opened without waiting, read within limits, written whole.

``regular`` opens and reads them, ``unpacking`` unfolds a gzip, ``lines`` reads line by line. A path from
outside is opened nowhere else, and ``atomic_write`` alone writes to one: ``tests/conventions`` holds that.
``kernel_mark`` is a file of our own: it says that all kernels of the engine are in the cache.
"""
