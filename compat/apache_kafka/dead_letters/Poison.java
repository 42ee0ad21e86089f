import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A member of a share group. Arguments: brokers, group, topic. It rejects records with the value `poison`, releases those with
 * `slow`, accepts all others, and ends after the second delivery of a slow one.
 */
public class Poison {
    static final int PATIENCE_MS = 60_000;

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        settings.put("share.acknowledgement.mode", "explicit");
        settings.put("key.deserializer", ByteArrayDeserializer.class);
        settings.put("value.deserializer", ByteArrayDeserializer.class);
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(settings)) {
            consumer.subscribe(List.of(arguments[2]));
            while (System.currentTimeMillis() < deadline) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(500));
                boolean isLast = false;
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    String value = new String(record.value(), StandardCharsets.UTF_8);
                    isLast |= value.equals("slow") && record.deliveryCount().orElse((short) 0) == 2;
                    consumer.acknowledge(record, value.equals("poison") ? AcknowledgeType.REJECT
                        : value.equals("slow") ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
                }
                consumer.commitSync().values().forEach(error -> error.ifPresent(Poison::fail));
                if (isLast)
                    return;
            }
        }
        throw new IllegalStateException("no second delivery");
    }

    static void fail(KafkaException error) {
        throw error;
    }
}
