"""What a person types: one command per file, found by ``main``.

A command's module stands here under the command's name and holds ``command``, a click command.
It imports what it runs inside the function, so that asking for help stays instant.
"""
