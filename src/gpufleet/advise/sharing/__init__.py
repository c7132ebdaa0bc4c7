"""Which sharing pays: from the measured use of pods to how their GPUs should be offered.

``statements`` adds what a person says to samples of use (``gpufleet.usage``), ``workload`` sums them up,
``choosing`` follows the table of practice, ``pools`` places the result with the engine (``packing``) and
takes back what would contend or save nothing, ``manifest`` writes what to apply.
"""
