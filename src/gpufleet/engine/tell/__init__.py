"""What is said of waiting work, of queues and of reservations: the last stage, which decides nothing.

``verdicts`` remembers why pods wait, ``explanation`` puts a verdict into words (with ``queue_words`` and
``reservation_words``). ``queue_report`` says what each queue has, ``line_up`` and ``precedence`` in which
order work waits, ``reservations`` what changed among reservations.
"""
