"""Settings of the Spark sessions that tests start."""

from __future__ import annotations

JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # a third less CPU time for such short jobs
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"  # a tenth less for the start of a JVM
)
FRUGAL = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
"""Settings of a short run: a third less CPU time for small jobs, with the same results. Full runs use a user's settings."""
