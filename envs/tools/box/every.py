"""All of them, in the order in which they are listed."""

from __future__ import annotations

from envs.tools.box import arithmetic, dates, files, shop, tables, units
from envs.tools.tool import Tool, tool

BOX: dict[str, Tool] = {
    made.name: made
    for made in map(
        tool,
        (
            arithmetic.calculate,
            *(dates.add_days, dates.days_between, dates.weekday),
            units.convert,
            *(tables.lookup, tables.filter, tables.join),
            *(files.list_files, files.read_file, files.write_file, files.delete_file),
            *(shop.price, shop.stock, shop.buy, shop.purse),
        ),
    )
}
