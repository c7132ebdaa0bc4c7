"""What ``gpufleet lint`` reads and writes around the rules of ``gpufleet.lint``.

``inputs`` finds the texts, ``snapshot_file`` reads a cluster from a file, ``settings`` and ``baseline`` say
what does not count, ``acceptance`` applies them, ``exemptions`` are profiles for other linters, and
``command`` ties it together.
"""
