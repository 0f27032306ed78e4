"""Tables whose entries end with the scope in which they were made."""

from __future__ import annotations

from tilewright.codegen.scoped_table import ScopedTable


def test_entries_of_a_scope_are_forgotten_at_its_end() -> None:
    table: ScopedTable[str, int] = ScopedTable()
    table["a"] = 1
    with table.scope():
        table["b"] = 2
        with table.scope():
            table["c"] = 3
            table["c"] = 4
            assert (table.get("a"), table.get("b"), table.get("c")) == (1, 2, 4)
        assert "c" not in table
        assert table.get("b") == 2
        table["c"] = 5
    assert [key in table for key in "abc"] == [True, False, False]
    table.clear()
    assert table.get("a") is None
