"""``python -m gpufleet`` is the same as the ``gpufleet`` command (``cli.main``)."""

import sys

from gpufleet.cli.main import main

sys.exit(main())
