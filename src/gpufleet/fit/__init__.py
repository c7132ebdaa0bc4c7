"""Does this model fit: memory of a language model on GPUs, from its shapes, as a range with its basis.

``catalogue`` and ``architecture`` give a model's facts, ``question`` puts them on cards, ``search`` looks for
a division that fits, ``answer`` is what comes out. No number here was fitted to one model; docs/fit.md says
where each comes from. Files of models, the hub and clusters are read by ``gpufleet.advise.fit``.
"""
