"""A stream of one's own: the page of docs/change-feed.md, with a checkpoint. `python -m compat.spark_apply.own_stream …`"""

import sys


def main() -> None:
    kind, table, jars, work, bootstrap, topic, checkpoint, schema, max_offsets = sys.argv[1:]
    from ottla.pipeline import builder, jobs
    from ottla.pipeline.apply.formats import FormatSpec
    from ottla.pipeline.apply.packages import EXTENSIONS

    from .command import CONFS, catalog

    made = builder("own", master="local[2]").config("spark.jars", jars)
    for conf, value in {**CONFS, **EXTENSIONS[kind], **catalog(kind, work)}.items():
        made = made.config(conf, value)
    spark = made.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    apply = jobs.applier(
        spark,
        topic=topic,
        table=table,
        table_format=kind,
        creates=True,
        kafka={"bootstrap.servers": bootstrap},
        key=FormatSpec("string", "key", schema="customer STRING"),
        value=FormatSpec("json", "value", schema=schema),
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )
    changes = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    changes = changes.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", max_offsets)
    query = changes.load().writeStream.foreachBatch(apply).option("checkpointLocation", checkpoint)
    query.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main()
