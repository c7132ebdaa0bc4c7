"""Whether an image's CUDA runs on a node: its driver, its GPU, and what NVIDIA's container runtime checks.

``image`` and ``node`` say what is known of either; ``requirement``, ``toolkit`` and ``architecture`` each
answer one question; ``judging`` puts them together. ``gpufleet.advise.cuda`` reads images from disk.
"""
