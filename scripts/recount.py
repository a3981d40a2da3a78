"""Holds the tables that ingest-reader exports against those that scripts/recount.sql makes of its events.

    recount.py SQL FOLDER

FOLDER has rewards.csv, days.csv, campaigns.csv, reward-days.csv and events.csv, exported with --no-csv-safe. Prints how many
rows were equal; ends with 1, and with some of the rows that differ, if one is not. Needs the Python package duckdb.
"""

import sys

import duckdb

sql, folder = sys.argv[1:]
base = duckdb.connect()


def read(name):
    return f"read_csv('{folder}/{name}.csv', all_varchar = true, header = true, quote = '\"', escape = '\"')"


base.execute(f"CREATE VIEW events AS SELECT * FROM {read('events')}")
base.execute(open(sql, encoding="utf-8").read())
counts = []
for table in ["rewards", "days", "campaigns", "reward-days"]:
    view = table.replace("-", "_")
    columns = [row[0] for row in base.execute(f"DESCRIBE SELECT * FROM {read(table)}").fetchall()]
    own = {row[0] for row in base.execute(f"DESCRIBE {view}").fetchall()}
    assert own == set(columns), f"{table}: {own ^ set(columns)}"
    texts = {"id", "businessId", "date", "campaign", "source", "overflow"}
    # Numbers as numbers: 0.50 and 0.5 are one.
    wanted = ", ".join(
        f'CAST("{name}" AS {"VARCHAR" if name in texts else "DECIMAL(38, 6)"}) AS "{name}"' for name in columns
    )
    exported, recounted = f"SELECT {wanted} FROM {read(table)}", f"SELECT {wanted} FROM {view}"
    for one, other in [(exported, recounted), (recounted, exported)]:
        rows = base.execute(f"{one} EXCEPT ALL {other}").fetchall()
        if rows:
            print(f"{table}: {len(rows)} rows differ, columns {columns}", *rows[:3], sep="\n")
            sys.exit(1)
    counts.append(str(base.execute(f"SELECT count(*) FROM {view}").fetchone()[0]))
print(" ".join(counts))
