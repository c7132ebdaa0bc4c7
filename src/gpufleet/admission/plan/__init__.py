"""What admission would do to work that is there already, before a namespace is told to refuse."""
