package table;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.AbstractMap.SimpleEntry;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.MethodOrderer.MethodName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;

/** Ten tests of a table in a compacted topic. The same ten, in the same order, are in the other languages beside us. */
@TestMethodOrder(MethodName.class)
class TableTest {
    private static final String TOPIC = "rows";
    private static final Map<String, String> COMPACTED = Map.of("cleanup.policy", "compact");
    private static final String HOUR_MS = "3600000";
    private static Broker broker;

    @BeforeAll
    static void start() throws Exception {
        broker = new Broker();
    }

    @AfterAll
    static void stop() throws Exception {
        broker.close();
    }

    @BeforeEach
    void reset() throws Exception {
        broker.post("/v1/reset", Map.of());
    }

    @Test
    void test01ATableIsWhatItsTopicSays() throws Exception {
        try (var table = table(COMPACTED)) {
            table.put("a", "1");
            table.put("b", "2");
            table.put("a", "3");
            table.delete("b");
            assertEquals(Map.of("a", "3"), table.rows());
        }
    }

    @Test
    void test02CompactionLeavesTheNewestRecordOfEachKey() throws Exception {
        try (var table = table(COMPACTED)) {
            table.putAll(values(100, 10));
            var before = table.rows();
            broker.post("/v1/topics/rows/compact", Map.of("force", true));
            assertEquals(10, table.history().size());
            assertEquals(before, table.rows());
        }
    }

    @Test
    void test03AfterEightDaysAllButTheLastRecordIsCompacted() throws Exception {
        try (var table = table(COMPACTED)) {
            table.putAll(values(100, 10));
            advance(Duration.ofDays(8)); // more than segment.ms
            table.put("key 0", "one more");
            assertEquals(11, table.history().size());
            assertEquals("one more", table.rows().get("key 0"));
        }
    }

    @Test
    void test04ATombstoneStaysForADayAndGoes() throws Exception {
        try (var table = table(COMPACTED)) {
            table.put("a", "1");
            table.delete("a");
            table.put("b", "2");
            broker.post("/v1/topics/rows/compact", Map.of("force", true));
            assertEquals(List.of(row("a", null), row("b", "2")), table.history());
            advance(Duration.ofHours(25)); // more than delete.retention.ms
            broker.post("/v1/topics/rows/compact", Map.of("force", true));
            assertEquals(List.of(row("b", "2")), table.history());
        }
    }

    @Test
    void test05YoungRecordsAreNotCompacted() throws Exception {
        try (var table = table(Map.of("cleanup.policy", "compact", "min.compaction.lag.ms", HOUR_MS))) {
            table.putAll(values(20, 2));
            broker.post("/v1/topics/rows/compact", Map.of("roll", true));
            assertEquals(20, table.history().size());
            advance(Duration.ofHours(2));
            broker.post("/v1/topics/rows/compact", Map.of());
            assertEquals(2, table.history().size());
        }
    }

    @Test
    void test06RetentionTakesWhatIsTooOld() throws Exception {
        try (var table = table(Map.of("cleanup.policy", "delete", "retention.ms", HOUR_MS))) {
            table.putAll(values(20, 2));
            broker.post("/v1/topics/rows/roll", Map.of());
            advance(Duration.ofHours(2));
            broker.post("/v1/retention", Map.of("topic", TOPIC));
            table.put("a", "later");
            assertEquals(List.of(row("a", "later")), table.history());
            assertEquals(20, table.start());
        }
    }

    @Test
    void test07AWriteWhoseAnswerIsLostIsThereOnce() throws Exception {
        try (var table = table(COMPACTED)) {
            int lost = fault(Map.of("api", "Produce", "topic", TOPIC, "disconnect", "after"));
            table.put("a", "1");
            assertEquals(1, hits(lost));
            assertEquals(List.of(row("a", "1")), table.history());
        }
    }

    @Test
    void test08AReaderLivesThroughALeaderThatMoves() throws Exception {
        try (var table = table(COMPACTED)) {
            table.put("a", "1");
            int moved = fault(Map.of("api", "Fetch", "topic", TOPIC, "error", "NOT_LEADER_OR_FOLLOWER", "count", 3));
            assertEquals(Map.of("a", "1"), table.rows());
            assertEquals(3, hits(moved));
        }
    }

    @Test
    void test09AResetLeavesNothing() throws Exception {
        try (var table = table(COMPACTED)) {
            table.put("a", "1");
        }
        broker.post("/v1/reset", Map.of());
        assertEquals(Set.of(), broker.topics());
        try (var table = table(COMPACTED)) {
            assertEquals(Map.of(), table.rows());
        }
    }

    @Test
    void test10EveryHardLogIsReadToItsEnd() throws Exception {
        for (var each : broker.get("/v1/cases").get("cases")) {
            var loaded = broker.post("/v1/cases/" + each.get("name").asText(), Map.of());
            var expected = new ArrayList<Map.Entry<String, String>>();
            for (var record : loaded.get("read_committed")) {
                expected.add(row(record.get("key").textValue(), record.get("value").textValue()));
            }
            try (var table = new Table(broker.bootstrap, loaded.get("topic").asText())) {
                assertEquals(expected, table.history(), each.get("name") + ": " + each.get("looks_like"));
            }
        }
    }

    private static Table table(Map<String, String> configs) throws Exception {
        broker.createTopic(TOPIC, new HashMap<>(configs));
        return new Table(broker.bootstrap, TOPIC);
    }

    private static Map.Entry<String, String> row(String key, String value) {
        return new SimpleEntry<>(key, value);
    }

    /** So many rows over so many keys, one after the other. */
    private static List<Map.Entry<String, String>> values(int count, int keys) {
        return IntStream.range(0, count).mapToObj(n -> row("key " + n % keys, "value " + n)).toList();
    }

    private static void advance(Duration by) throws Exception {
        broker.post("/v1/clock/advance", Map.of("by_ms", by.toMillis()));
    }

    private static int fault(Map<String, Object> declaration) throws Exception {
        return broker.post("/v1/faults", declaration).get("fault_id").asInt();
    }

    private static int hits(int fault) throws Exception {
        return broker.get("/v1/faults/" + fault).get("hits").asInt();
    }
}
