"""What work is typical, and what that makes of idle GPUs.

``mix`` counts what arrives. ``study`` turns the mix and the fleet into a ``valuation.Valuation``:
``remainder_value`` says what a part of a GPU is worth, ``host_curve`` how much CPU and memory idle GPUs need,
``model_worth`` what each model is worth, ``whole_slots`` where room for several GPUs becomes scarce. Floats
are fine in these: a valuation is rounded before it is used. ``run_times`` learns how long work runs.

Comes after ``state`` and before ``place``, whose scores use the valuation.
"""
