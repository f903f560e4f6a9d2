"""Pictures: a table in, matplotlib Axes out.

Functions ``plot_x(frame, *, ax=None) -> Axes`` read nothing and keep no state; the frames they draw come from functions
beside them (``usage_bins``, ``ranked`` …) that widgets use too. ``ccanalytics.plot`` has the same pictures for a loaded
object: ``cc.plot.usage(t)``.
"""

from __future__ import annotations

from .blocks import plot_blocks
from .branches import plot_branches
from .calendar import plot_calendar
from .context import plot_context
from .icicle import plot_icicle
from .lanes import plot_agents
from .ranking import plot_ranking
from .style import COLORS, KIND_COLORS, theme
from .tools import plot_tools
from .usage import plot_usage

__all__ = [
    "COLORS",
    "KIND_COLORS",
    "plot_agents",
    "plot_blocks",
    "plot_branches",
    "plot_calendar",
    "plot_context",
    "plot_icicle",
    "plot_ranking",
    "plot_tools",
    "plot_usage",
    "theme",
]
