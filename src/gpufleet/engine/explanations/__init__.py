"""What is said of waiting work, of queues and of reservations: the last stage, which decides nothing.

``causes`` has the causes for which work waits, ``verdicts`` remembers why pods wait, ``why`` makes an
``explanation`` of all that is known of it, ``sentences`` puts a verdict into words (with ``queue_words`` and
``reservation_words``). ``queue_report`` says what each queue has, ``waiting_order`` and ``precedence`` in
which order work waits, ``reservation_report`` what changed among reservations.
"""
