"""Ali-CCP (Tianchi data set 408): two skeleton files joined with two files of common features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput, check_known
from monocal.lab.prepare.source import Source, drop_malformed, find_file
from monocal.lab.sources.side_files import SideTable, first_features
from monocal.tables.columns import RawRows
from monocal.tables.csv import CsvFormat, RowProblems, csv_rows
from monocal.tables.roles import Roles

USER_FIELDS = ("101", "121", "122", "124", "125", "126", "127", "128", "129")
ITEM_FIELDS = ("205", "206", "207", "216", "301")
TASKS = ("click", "conversion")

_SKELETON = CsvFormat(
    quote=None, names=("sample_id", "click", "conversion", "common_feature_index", "feature_num", "feature_list")
)
_COMMON = CsvFormat(quote=None, names=("common_feature_index", "feature_num", "feature_list"))
_WISH = "features as field 0x02 feature 0x03 value, separated by 0x01"


@final
class AliCCP(Source):
    """Impressions of a shopping recommender, 85,316,975 rows (train file, then test file), 3.9 % clicks.

    Nine user fields come from the common-features file by a left join, five item and scenario fields from the
    skeleton; the first feature of a field counts, a missing field is 0. There is no time column: time order means
    file order. The join holds 60 to 84 bytes per user in memory, whatever the number of rows.

    Arguments:
        tasks: Which labels to take: "click", "conversion" (which is 0 wherever there was no click).

    Example:
        >>> AliCCP().schema.fields[9:]
        ('205', '206', '207', '216', '301')
    """

    name = "aliccp"

    def __init__(self, tasks: Sequence[str] = ("click",)) -> None:
        for task in tasks:
            check_known("task", task, TASKS)
        self.tasks = tuple(tasks)

    def _schema(self) -> Roles:
        return Roles(tasks={task: task for task in self.tasks}, fields=(*USER_FIELDS, *ITEM_FIELDS), group="101")

    def _settings(self) -> dict[str, Any]:
        return {"tasks": list(self.tasks)}

    def _files(self, raw_dir: Path) -> Sequence[Path]:
        if raw_dir.is_file():
            raise InvalidInput.of("raw_dir", repr(str(raw_dir)), "the folder with the four files", "pass the folder")
        files = []
        for part in ("train", "test"):
            folder = next((f for f in (raw_dir / f"sample_{part}", raw_dir / part) if f.is_dir()), raw_dir)
            files.append(find_file(folder, (f"common_features_{part}.csv",), "Ali-CCP"))
            files.append(find_file(folder, (f"sample_skeleton_{part}.csv",), "Ali-CCP"))
        return files

    def _rows(self, files: Sequence[Path], problems: RowProblems) -> Iterator[RawRows]:
        for common, skeleton in zip(files[::2], files[1::2], strict=True):
            users = _read_users(common, problems)
            plain = ("sample_id", "feature_list")
            columns = [*TASKS, "common_feature_index", "feature_list"]
            for rows in csv_rows(skeleton, _SKELETON, problems, columns, plain):
                items, kept = _features(rows, ITEM_FIELDS, problems)
                found = users.look_up(kept.batch.column("common_feature_index"), missing="0")
                columns_out = {task: kept.batch.column(task) for task in self.tasks} | found
                columns_out |= {field: coded_integers(values) for field, values in items.items()}
                yield kept._replace(batch=pa.RecordBatch.from_pydict(columns_out))


def _read_users(path: Path, problems: RowProblems) -> SideTable:
    users = SideTable(USER_FIELDS)
    for rows in csv_rows(path, _COMMON, problems, ["common_feature_index", "feature_list"], _COMMON.names or ()):
        features, kept = _features(rows, USER_FIELDS, problems)
        columns = {field: coded_integers(values) for field, values in features.items()}
        users.add(kept.batch.column("common_feature_index"), columns)
    return users


def _features(
    rows: RawRows, fields: Sequence[str], problems: RowProblems
) -> tuple[Mapping[str, NDArray[np.int64]], RawRows]:
    lists = rows.batch.column("feature_list")
    found, bad = first_features(lists, fields)
    kept = drop_malformed(problems, rows, bad, lists, _WISH)
    return {field: values[~bad] for field, values in found.items()}, kept


def coded_integers(values: NDArray[np.int64]) -> pa.Array:
    """Returns integers as dictionary-encoded text."""
    coded = pa.array(values).dictionary_encode()
    return pa.DictionaryArray.from_arrays(coded.indices, coded.dictionary.cast(pa.string()))
