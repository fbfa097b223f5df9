"""`python -m edge_runner.worker`: the process a run lives in, started by `edge_runner.bench`."""

from __future__ import annotations

import sys

from edge_runner.bench.worker import main

if __name__ == "__main__":
    sys.exit(main())
