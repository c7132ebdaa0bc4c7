"""A live cluster as the doctor and ``gpufleet lint --live`` read it: listed once, changed never.

``kinds`` says what is asked for, ``gathering`` asks, ``trimming`` keeps what can matter.
"""
