"""The container image of scheduler and agent, made on this machine without a registry and without Docker.

    debian        Python and the C libraries, from Debian's packages
    dependencies  our locked Python packages, as far as a cluster needs them
    ours          the wheel of this checkout, and the engine's kernels compiled for a generic CPU
    layers        folders as layers: the same files give the same bytes
    archive       layers as one file that containerd, Docker and others import
    build         the order of all that, and what is kept between two builds

``python -m image`` (`make image`) writes build/image/gpufleet.tar and says its digest. ``inside`` is what
exists in the image alone.
"""
