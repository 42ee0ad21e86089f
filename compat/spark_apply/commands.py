"""Runs commands of `ottla-spark` one after the other in one session: starting Spark for each would take ten times as long.

    python -m compat.spark_apply.commands KIND JARS WORK

Each line on standard input is a list of arguments; the answer is a line of [exit code, output, text on standard error].
`--rows TABLE` prints a table's rows as JSON, without the columns that say which record a row is from.
"""

import contextlib
import io
import json
import sys


def main() -> None:
    kind, jars, work = sys.argv[1:4]
    from ottla.pipeline import cli
    from ottla.pipeline.apply.merge_sql import PLACE
    from ottla.pipeline.apply.packages import EXTENSIONS
    from ottla.pipeline.apply.query import table
    from ottla.pipeline.run.session import builder

    from .command import CONFS, catalog

    made = builder("commands", master="local[2]").config("spark.jars", jars)
    for name, value in {**CONFS, **EXTENSIONS[kind], **catalog(kind, work)}.items():
        made = made.config(name, value)
    session = made.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    for line in sys.stdin:
        words = json.loads(line)
        if words[0] == "--rows":
            rows = [row.asDict(recursive=True) for row in table(kind, words[1]).read(session).drop(*PLACE).collect()]
            print(json.dumps([0, json.dumps(rows, default=str), ""]), flush=True)
            continue
        out, said = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
            try:
                code = cli.main(words)
            except SystemExit as refused:
                code = int(refused.code or 0)
        print(json.dumps([code, out.getvalue(), said.getvalue()]), flush=True)


if __name__ == "__main__":
    main()
