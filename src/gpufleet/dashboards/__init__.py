"""Dashboards for Grafana: boards as values, and the JSON that Grafana reads.

``board`` says what a board is made of, ``boards`` has one module for each board, ``grafana_codec`` writes
JSON. ``catalogue`` names all boards; the command ``gpufleet dashboards`` and the chart have their files from
there.
"""
