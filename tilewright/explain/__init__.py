"""Static analysis of a schedule, before anything runs: regions, work, accesses, occupancy, and pictures of them."""

from ..core.views import hook_in


def hook_in_views() -> None:
    """Let schedules explain and draw themselves."""
    hook_in("explain", f"{__name__}.explanation", "explain")
    hook_in("draw", f"{__name__}.pictures", "draw")
