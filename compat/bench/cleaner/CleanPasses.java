import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Optional;

import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Clean passes with Apache Kafka's own cleaner, one for each line of standard input, all in the main thread.
 *
 * Arguments: bytes of the offset map, its load factor, bytes of the read buffer (and of the write buffer).
 * A line: the partition's directory, the first dirty offset, the time of the pass in Unix ms, segment.bytes.
 * The answer: "pass" and CPU nanoseconds of the pass, the offset it got to, records read and kept.
 * The pass goes up to the active segment. Opening and closing the log are not measured.
 */
public final class CleanPasses {
    private static final int MAX_MESSAGE_BYTES = 1048588;

    public static void main(String[] arguments) throws Exception {
        Cleaner cleaner = new Cleaner(
            0,
            new SkimpyOffsetMap(Integer.parseInt(arguments[0])),
            Integer.parseInt(arguments[2]),
            MAX_MESSAGE_BYTES,
            Double.parseDouble(arguments[1]),
            new Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", Time.SYSTEM),
            Time.SYSTEM,
            partition -> { });
        Scheduler scheduler = new KafkaScheduler(1); // for what comes long after a pass: it deletes what was replaced
        scheduler.startup();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split("\t");
            UnifiedLog log = open(new File(fields[0]), fields[3], scheduler);
            String answer = pass(cleaner, log, Long.parseLong(fields[1]), Long.parseLong(fields[2]));
            log.close(); // first: whoever reads the answer takes the directory away
            System.out.println(answer);
        }
        scheduler.shutdown();
    }

    private static String pass(Cleaner cleaner, UnifiedLog log, long firstDirtyOffset, long nowMs) throws Exception {
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        LogToClean toClean = new LogToClean(log, firstDirtyOffset, log.activeSegment().baseOffset(), false);
        long before = threads.getCurrentThreadCpuTime();
        Map.Entry<Long, CleanerStats> done = cleaner.doClean(toClean, nowMs);
        long spent = threads.getCurrentThreadCpuTime() - before;
        CleanerStats stats = done.getValue();
        return String.format(
            "pass\t%d\t%d\t%d\t%d", spent, done.getKey(), stats.messagesRead(), stats.messagesWritten());
    }

    private static UnifiedLog open(File directory, String segmentBytes, Scheduler scheduler) throws Exception {
        LogConfig config = new LogConfig(Map.of("cleanup.policy", "compact", "segment.bytes", segmentBytes));
        return UnifiedLog.create(
            directory,
            config,
            0,
            0,
            scheduler,
            new BrokerTopicStats(),
            Time.SYSTEM,
            900_000,
            new ProducerStateManagerConfig(86_400_000, false),
            600_000,
            new LogDirFailureChannel(1),
            true,
            Optional.empty());
    }
}
