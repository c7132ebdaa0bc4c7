"""Objects are judged and completed on their way into the cluster, by the rules of ``gpufleet lint``.

``treatment`` says who judges each rule: policies of the API server where their language (CEL) can say it, the
webhook where it cannot, an audit where one object alone does not tell. ``cel`` makes the policies' text from
the rules' data, so that a rule has one source.
"""
