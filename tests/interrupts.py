"""Children that Ctrl-C ends, whatever this process does with it: shells start background jobs that ignore it."""

from __future__ import annotations

import signal


def heed_ctrl_c() -> None:
    """Give SIGINT its default action, which a child would inherit; between fork and exec."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
