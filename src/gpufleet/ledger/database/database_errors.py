"""What can go wrong with a database.

WorldError
  DatabaseError      the server cannot be reached, or refuses
"""

from gpufleet.model.model_errors import WorldError


class DatabaseError(WorldError):
    """The server cannot be reached or refuses; nothing of the transaction was kept."""
