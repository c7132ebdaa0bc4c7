"""Kubernetes objects as far as we read them, with the names that they have on the wire.

One module for each family of kinds. The structs say what may be there, not what it means: that is ``codec``'s
business. Fields that we do not read are skipped while decoding. A field of another type than is written here
makes the whole object unreadable, which harms no other object (``mirror``).
"""
