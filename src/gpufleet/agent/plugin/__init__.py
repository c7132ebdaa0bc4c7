"""The device plugin, as far as it is built: ``whole`` says whose the units of a resource are."""
