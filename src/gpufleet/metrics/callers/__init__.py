"""Who asks, and whether that is allowed: the API server vouches for a caller, or a token does."""
