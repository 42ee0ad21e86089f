"""Settings of the Spark sessions that tests start."""

from __future__ import annotations

JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # a third less CPU time for jobs so short
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"  # a tenth less for a JVM that starts
)
FRUGAL = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
"""Of a slice: a third less CPU time for jobs of a few rows, whose results are the same. Full runs are as a user's session is."""
