"""Who may have how much, and whose turn it is: quota and fair share over a tree of queues.

``statement`` judges what somebody says of a queue, ``resources`` gives resources their columns, ``tree``
the queues their rows, limits and paths, ``charge`` counts pods along those paths, ``queue_book`` keeps
all that in step with events, and ``available`` says what is left and which limit binds.
"""
