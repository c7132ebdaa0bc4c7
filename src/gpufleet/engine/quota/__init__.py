"""Who may have how much, and whose turn it is: quota and fair share over a tree of queues."""
