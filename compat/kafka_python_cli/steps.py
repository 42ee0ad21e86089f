"""The commands, in their order on a new broker. A step creates what later steps read.

`{uuid}` stands for the id of topic `plain`, known after it was described.
"""

from typing import NamedTuple


class Step(NamedTuple):
    command: str  # after `kafka-python`; the connection and, for `admin`, `--format` are put in
    stdin: str = ""
    format: str = "json"  # raw where kafka-python's own JSON writer fails on its result


CONSUME = "-C consumer_timeout_ms=4000 -C auto_offset_reset=earliest"

STEPS = (
    Step("admin cluster describe"),
    Step("admin cluster api-versions"),
    Step("admin cluster broker-version --broker 0"),
    Step("admin cluster describe-features"),
    Step("admin cluster describe-quorum"),
    Step("admin topics list"),
    Step("admin topics create -t plain --num-partitions 2 --replication-factor 1"),
    Step("admin topics create -t plain --num-partitions 2 --replication-factor 1"),
    Step("admin topics create -t too-many-replicas --replication-factor 4"),
    Step("admin topics create -t bad/name"),
    Step("admin topics create -t defaults"),
    Step("admin topics list"),
    Step("admin topics describe -t plain"),
    Step("admin topics describe --id {uuid}"),
    Step("admin topics describe -t missing"),
    Step("admin configs describe -r topic -n plain"),
    Step("admin configs alter -r topic -n plain -c cleanup.policy=compact -c segment.bytes=1048576"),
    Step("admin configs alter -r topic -n plain -c segment.bytes=12"),
    Step("admin configs alter -r topic -n plain -c no.such.option=1 --allow-unknown"),
    Step("admin configs alter -r topic -n plain -c retention.ms=1000 --validate-only"),
    Step("admin configs describe -r topic -n plain --modified"),
    Step("admin configs reset -r topic -n plain -c segment.bytes -c cleanup.policy"),
    Step("admin configs describe -r topic -n plain --modified"),
    Step("admin configs describe -r topic -n missing"),
    Step("admin configs describe -r broker -n 0 -c log.cleaner.threads -c message.max.bytes -c num.partitions"),
    Step("admin configs describe -r broker -n 0"),
    Step("admin configs alter -r broker -n 0 -c log.cleaner.threads=2"),
    Step("admin configs alter -r broker -n 0 -c log.cleaner.threads=none"),
    Step("admin configs describe -r broker -n 0 --dynamic"),
    Step("admin configs describe -r broker -n 7"),
    Step("admin configs list -r topic"),
    Step("producer -t defaults", "one\ntwo\nthree\n"),
    Step("producer -t defaults -C compression_type=gzip", "four\n"),
    Step("producer -t made-by-producing", "first\n"),
    Step("admin topics list"),
    Step(f"consumer -t defaults {CONSUME}"),
    Step(f"consumer -t defaults -g readers {CONSUME}"),
    Step(f"consumer -t defaults -g readers -i static-1 {CONSUME}"),
    Step("admin partitions list-offsets -t defaults -s earliest"),
    Step("admin partitions list-offsets -t defaults -s latest"),
    Step("admin partitions list-offsets -p defaults:0:max-timestamp"),
    Step("admin partitions list-offsets -p missing:0:latest"),
    Step("admin partitions create -p plain:3"),
    Step("admin partitions create -p plain:2"),
    Step("admin partitions create -p missing:2"),
    Step("admin partitions describe -t plain", format="raw"),
    Step("admin partitions describe -t plain --response-partition-limit 2", format="raw"),
    Step("admin partitions delete-records -r made-by-producing:0:1", format="raw"),
    Step("admin partitions delete-records -r made-by-producing:0:9"),
    Step("admin partitions list-offsets -t made-by-producing -s earliest"),
    Step("admin partitions elect-leaders -t plain"),
    Step("admin partitions list-reassignments"),
    Step("admin groups list"),
    Step("admin groups describe -g readers"),
    Step("admin groups describe -g missing"),
    Step("admin groups list-offsets -g readers"),
    Step("admin groups alter-offsets -g written -o made-by-producing:0:1"),
    Step("admin groups list-offsets -g written"),
    Step("admin groups reset-offsets -g written -s latest"),
    Step("admin groups delete-offsets -g written -p made-by-producing:0"),
    Step("admin groups list-offsets -g written"),
    Step("admin groups delete -g written"),
    Step("admin groups delete -g missing"),
    Step("admin groups list"),
    Step("admin cluster describe-log-dirs --topic defaults"),
    Step("admin transactions list"),
    Step("admin transactions describe-producers -t defaults -p 0"),
    Step("admin users describe-scram-credentials"),
    Step("admin acls describe"),
    Step("admin topics delete -t plain"),
    Step("admin topics delete -t missing"),
    Step("admin topics delete --id {uuid}"),
    Step("admin topics list"),
)
