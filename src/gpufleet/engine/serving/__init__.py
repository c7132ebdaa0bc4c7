"""What becomes of the first workload of a line whose turn it is.

``pods`` and ``gangs`` serve the lines of single pods and of gangs: each tries to place the workload, and says
what follows where it has no place. ``other_ways`` then looks for one behind reservations, at the cost of
others, or in the future, and ``carrying_out`` does and tells what was decided. Comes after ``explanations``,
and before ``cycle``, which gives the turns.
"""
