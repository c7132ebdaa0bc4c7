"""What all tests share: how Hypothesis searches.

No deadline, because the first call of a kernel may compile it. In CI the search is the same every
time, so that a change is judged by itself and not by luck; at home it looks somewhere new.
"""

import os

from hypothesis import settings

settings.register_profile("home", deadline=None, print_blob=True)
settings.register_profile("ci", settings.get_profile("home"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "home")
