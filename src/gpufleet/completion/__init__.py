"""What a pod that asks for a GPU lacks and is given: for the webhook, for plans, and for what-if questions.

``additions`` names each addition with its data, ``completing`` makes the patch of a pod.
"""
