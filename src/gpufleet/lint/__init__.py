"""Rules about GPUs for manifests, with fixes: values in, findings out, nothing read and nothing asked.

``source`` reads text with places, ``objects`` are typed views of what was read, ``rules`` judge these views,
``edits`` mend the text, ``outputs`` write reports, ``run`` puts all of it together. A rule is a pure function
of an object and its context, so that admission can ask it too. Files, settings and baselines of
``gpufleet lint`` are the business of ``gpufleet.advise.lint``.
"""
