"""The user of a request and what that user may ask: the API server vouches for the user, or a token does."""
