"""Another reader of files, whole: Feather, the file that pandas and R exchange tables in. docs/change.md leads here.

A reader gets a `Source` (a path, bytes or an open file, with limits) and gives a frame and notes on what it made of the file.
What is wrong is a `DataError` that names the file and says what to do; roles, rates and gaps are found by what comes after.
"""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
from pyarrow import feather

from datasets.readers.delimited import unique_names
from datasets.readers.source import Source, refuse_damage
from gdm_core.errors import DataError

ENDING = ".feather"


def read_feather(source: Source) -> tuple[pd.DataFrame, list[str]]:
    """The table in a Feather file, without columns of lists and records."""
    what = f"{source.name} is not a readable Feather file"
    with source.open() as raw, refuse_damage(what, "Save it again as .parquet or .csv."):
        table = feather.read_table(pa.PythonFile(raw, mode="r"))
    if not table.num_rows:
        raise DataError(f"{source.name} holds no rows.")
    plain = [field.name for field in table.schema if not pa.types.is_nested(field.type)]
    dropped = [name for name in table.column_names if name not in plain]
    frame = table.select(plain).to_pandas(ignore_metadata=True)
    frame.columns = pd.Index(unique_names(plain)[0])
    source.tell(0.99, f"{table.num_rows:,} rows read")
    return frame, [f"columns that hold lists or records were left out: {', '.join(dropped[:5])}"] if dropped else []
