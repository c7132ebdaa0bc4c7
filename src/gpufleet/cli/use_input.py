"""Reads a table of use: what pods used of their GPUs over time.

Tables are opened as the replay opens its own, so that CSV and Parquet, gzipped or not, are the same here.
"""

from pathlib import Path

from gpufleet.model.model_errors import InputError
from gpufleet.replay.table_bytes import TableLimits
from gpufleet.replay.table_columns import Column
from gpufleet.replay.trace_table import open_table
from gpufleet.usage.samples import OPTIONAL, REQUIRED, Sample, read_sample

# Those of every table that is read.
LIMITS = TableLimits()
COLUMNS = (*(Column(name, required=True) for name in REQUIRED), *(Column(name) for name in OPTIONAL))


def read_use(path: Path) -> tuple[list[Sample], tuple[str, ...]]:
    """All samples of a table, and notes for people about columns that were left out."""
    samples = []
    with open_table(path, COLUMNS, limits=LIMITS) as table:
        for row, lines, cells in table.rows:
            try:
                samples.append(read_sample(cells))
            except InputError as error:
                table.bad_rows.refuse(row, error, lines)
        table.bad_rows.finish()
        return samples, table.columns.notes
