"""Spark tables without `toArrow`, as Spark 3.5 has them."""

import pyarrow as pa

from monocal.tables.source import ClusterTable

TABLE = pa.table(
    {
        "name": pa.array(["a", None, "c"]),
        "number": pa.array([1, None, 3], pa.int64()),
        "moment": pa.array([0, 1, None], pa.timestamp("us", "Europe/Berlin")),
    }
)


class Frame:
    """Stands for a `pyspark.sql.DataFrame` of Spark 3.5 in a session of another time zone than UTC."""

    def __init__(self, table, schema):
        self.table, self.schema = table, schema

    def limit(self, n_rows):
        return Frame(self.table.slice(0, n_rows), self.schema)

    def select(self, *names):
        columns = [name.strip("`") for name in names]
        return Frame(self.table.select(columns), type(self.schema)([self.schema[name] for name in columns]))

    def mapInArrow(self, work, schema):
        assert schema == "data binary"
        found = pa.Table.from_batches(
            work(iter(self.table.to_batches(max_chunksize=2))), pa.schema({"data": pa.binary()})
        )
        return type("Rows", (), {"collect": staticmethod(found.to_pylist)})()


def test_columns_keep_the_types_that_they_have_there():
    from pyspark.sql import types

    kinds = {"name": types.StringType(), "number": types.LongType(), "moment": types.TimestampType()}
    schema = types.StructType([types.StructField(name, kind) for name, kind in kinds.items()])
    for rows in (TABLE, TABLE.slice(0, 0)):
        found = ClusterTable(Frame(rows, schema))
        assert found.schema.field("name").type == pa.string()
        assert found.schema.field("number").type == pa.int64()
        expected = rows.set_column(2, "moment", rows["moment"].cast(pa.timestamp("us", "UTC")))
        assert found.hold(["number", "name", "moment"]) == expected.select(["number", "name", "moment"])
