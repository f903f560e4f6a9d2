"""What an export is made of; see :mod:`ccanalytics.parquet`."""
