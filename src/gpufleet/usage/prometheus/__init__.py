"""Measured use of GPUs from a Prometheus server, for whatever gives advice from it.

``access`` says where the server is and how one gets in, ``window`` which time is asked for and in which
parts, ``client`` asks, and ``answer`` decodes what comes back; these know nothing of GPUs. ``labels`` reads
which GPU and pod a series is about, ``tracks`` joins the series of each GPU and holder, ``owners`` finds the
workload of a pod, ``gpu_use`` asks for all of it, and ``pod_samples`` makes samples and says what it left out
and why.
"""
