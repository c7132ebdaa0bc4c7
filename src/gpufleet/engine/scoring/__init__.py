"""Small scoring functions and their weighted sum.

Each module holds one idea of what a good place is; ``total`` adds them up with the weights of the
policy. All scores are integers, higher is better.
"""
