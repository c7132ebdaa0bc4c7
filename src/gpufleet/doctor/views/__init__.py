"""Objects of a cluster as checks read them: what is written of an object, in the words of checks."""
