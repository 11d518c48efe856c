"""The field table of this folder's README: `python -m probe.schema.field_table` prints it."""

from enum import EnumMeta, StrEnum

from probe.schema.tables import TABLES, Field, Table
from probe.schema.trace import TRACE

BEGIN = "<!-- field table: begin -->"
END = "<!-- field table: end -->"


def field_table() -> str:
    """All tables and their columns as Markdown, the distilled trace last."""
    return "\n\n".join([BEGIN, *(_section(table) for table in (*TABLES, TRACE)), END])


def _section(table: Table) -> str:
    lines = [
        f"### `{table.name}`",
        "",
        table.meaning,
        "",
        "| column | type | unit | meaning |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| `{field.name}` | {_type_name(field)} | {field.column.unit} | {field.column.meaning} |"
        for field in table.fields
    ]
    return "\n".join(lines)


def _type_name(field: Field) -> str:
    if isinstance(field.type, EnumMeta) and issubclass(field.type, StrEnum):
        name = "one of " + ", ".join(f"`{word}`" for word in field.type)
    else:
        name = {int: "int", float: "float", bool: "bool", str: "text"}.get(
            field.type,  # type: ignore[call-overload]
            "list of int",
        )
    return f"{name}, or null" if field.optional else name


if __name__ == "__main__":
    print(field_table())
