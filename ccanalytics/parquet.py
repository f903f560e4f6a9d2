"""The lake: every table as Parquet in a folder, added to by each export, read lazily.

The parts are in :mod:`ccanalytics.lake`: ``layout`` (folders, partitions), ``files`` (one Parquet file), ``manifest``
(what the lake holds), ``journal`` (atomic change), ``ids`` (stable numbers), ``scan`` (reading).
"""

from __future__ import annotations
