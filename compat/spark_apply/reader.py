"""A Spark of its own that reads the table: `python reader.py KIND TABLE JARS WORK`, in the format's environment.

Each line on standard input is a question: `rows`, or SQL. The answer is one line of JSON.
"""

import json
import sys


def main() -> None:
    kind, name, jars, work = sys.argv[1:5]
    from ottla.pipeline.apply.packages import EXTENSIONS
    from ottla.pipeline.apply.query import table
    from ottla.pipeline.apply.state import standing
    from ottla.pipeline.run.session import builder

    from .command import CONFS, catalog

    made = builder("reader", master="local[1]").config("spark.jars", jars)
    for conf, value in {**CONFS, **EXTENSIONS[kind], **catalog(kind, work)}.items():
        made = made.config(conf, value)
    session = made.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    of = table(kind, name)
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() != "rows":
            found = [row.asDict(recursive=True) for row in session.sql(line.strip()).collect()]
            print(json.dumps(found, default=str), flush=True)
            continue
        if not of.exists(session):
            print(json.dumps({"rows": {}, "offsets": {}, "commits": 0, "chain": True}), flush=True)
            continue
        states = list(of.states(session))
        stands, is_chain = standing(states)
        session.catalog.clearCache()
        rows = {
            row["customer"]: {"city": row["city"], "orders": row["orders"], "tags": row["tags"]}
            for row in of.read(session).collect()
        }
        offsets = {} if stands is None else dict(stands.offsets)
        print(json.dumps({"rows": rows, "offsets": offsets, "commits": len(states), "chain": is_chain}), flush=True)


if __name__ == "__main__":
    main()
