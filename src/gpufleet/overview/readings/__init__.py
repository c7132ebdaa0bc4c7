"""What views of a fleet read: objects of the API, the engine's answer, and measured use.

``kind_reader`` lists a kind and follows it, and ``followed_picture`` all kinds that decisions depend on.
``agent_pages`` asks agents through the API server and ``prometheus_use`` asks Prometheus, both for the
values of ``overview.rows.use``. ``engine_asking`` asks the engine, and ``engine_process`` does so in a
process of its own. ``readings`` has all of them together.
"""
