"""The webhook: what the API server asks it, what it answers, its certificates, and its process."""
