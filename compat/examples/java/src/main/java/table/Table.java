package table;

import java.time.Duration;
import java.util.AbstractMap.SimpleEntry;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A table whose rows live in a compacted topic: the newest value of each key, and nothing for a key that was deleted. */
public final class Table implements AutoCloseable {
    /** A log may end in a gap, where records were compacted away: silence is the end, too. */
    private static final Duration IDLE = Duration.ofMillis(500);

    private final String bootstrap;
    private final TopicPartition partition;
    private final KafkaProducer<String, String> producer;

    /** The rows of one topic of one partition. Writes are idempotent, as the Java client has it. */
    public Table(String bootstrap, String topic) {
        this.bootstrap = bootstrap;
        this.partition = new TopicPartition(topic, 0);
        this.producer = new KafkaProducer<>(settings(Map.of()), new StringSerializer(), new StringSerializer());
    }

    public void put(String key, String value) throws Exception {
        putAll(List.of(new SimpleEntry<>(key, value)));
    }

    public void delete(String key) throws Exception {
        put(key, null);
    }

    public void putAll(List<? extends Map.Entry<String, String>> rows) throws Exception {
        var answers = new ArrayList<java.util.concurrent.Future<?>>();
        for (var row : rows) {
            answers.add(producer.send(
                    new ProducerRecord<>(partition.topic(), partition.partition(), row.getKey(), row.getValue())));
        }
        for (var answer : answers) {
            answer.get();
        }
    }

    /** The table as it is now. */
    public Map<String, String> rows() {
        var found = new HashMap<String, String>();
        for (var row : history()) {
            if (row.getValue() == null) {
                found.remove(row.getKey());
            } else {
                found.put(row.getKey(), row.getValue());
            }
        }
        return found;
    }

    /** All records that are left in the log. */
    public List<Map.Entry<String, String>> history() {
        var found = new ArrayList<Map.Entry<String, String>>();
        try (var consumer = consumer()) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            var wait = IDLE.multipliedBy(4);
            while (consumer.position(partition) < end) {
                long before = consumer.position(partition);
                for (ConsumerRecord<String, String> record : consumer.poll(wait)) {
                    found.add(new SimpleEntry<>(record.key(), record.value()));
                }
                if (consumer.position(partition) == before) {
                    break;
                }
                wait = IDLE;
            }
        }
        return found;
    }

    /** The first offset of the log. */
    public long start() {
        try (var consumer = consumer()) {
            return consumer.beginningOffsets(List.of(partition)).get(partition);
        }
    }

    @Override
    public void close() {
        producer.close();
    }

    private KafkaConsumer<String, String> consumer() {
        var more = Map.<String, Object>of("isolation.level", "read_committed", "fetch.max.wait.ms", 10);
        return new KafkaConsumer<>(settings(more), new StringDeserializer(), new StringDeserializer());
    }

    private Map<String, Object> settings(Map<String, Object> more) {
        var settings = new HashMap<String, Object>(more);
        settings.put("bootstrap.servers", bootstrap);
        settings.put("retry.backoff.ms", 10);
        settings.put("reconnect.backoff.ms", 10);
        return settings;
    }
}
