"""What Karpenter may buy, as a catalogue for `gpufleet plan --pools`.

``sources`` reads NodePools and NodeOverlays from a file or a cluster. ``instance_labels`` has the labels that
Karpenter knows of a type, ``overlays`` changes prices and resources, ``offers`` puts each pool and each type
of the table of prices together, and ``pool_limits`` holds a plan to what the limits of the pools leave.
"""
