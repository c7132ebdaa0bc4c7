"""How each GPU of a node is offered: whole, in turns, by MPS, cut, or in fractions.

``plan`` is the value: one plan per GPU. ``own`` reads our format, in which every GPU may be shared in
its own way; ``plugin`` and its neighbours read the config file v1 of NVIDIA's device plugin whole. All
are pure: text and a fleet in, plans or a refusal out. ``gpufleet.agent`` watches the files and carries
the plans out; where a new text is refused it keeps the plans it has.
"""
