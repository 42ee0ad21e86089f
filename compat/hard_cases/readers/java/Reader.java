import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Apache Kafka's own client: at the end when `position` is. Reads and answers as `readers/__init__.py` says. */
public class Reader {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        JsonNode asked = json.readTree(System.in);
        for (JsonNode wanted : asked.get("reads")) {
            ObjectNode answer = json.createObjectNode();
            read(asked.get("bootstrap").asText(), wanted.get("idle_s").asDouble(), wanted, answer);
            System.out.println(json.writeValueAsString(answer));
        }
        System.exit(0);
    }

    private static void read(String bootstrap, double idleSeconds, JsonNode wanted, ObjectNode answer) {
        String group = wanted.get("group").isNull() ? null : wanted.get("group").asText();
        Properties options = new Properties();
        options.put("bootstrap.servers", bootstrap);
        options.put("isolation.level", wanted.get("level").asText());
        options.put("enable.auto.commit", "false");
        options.put("auto.offset.reset", "earliest");
        options.put("fetch.max.wait.ms", "100");
        if (group != null) {
            options.put("group.id", group);
            options.put("group.protocol", "consumer");
        }
        TopicPartition partition = new TopicPartition(wanted.get("topic").asText(), 0);
        ArrayNode records = answer.putArray("records");
        long end = wanted.get("end").asLong();
        long position = -1;
        boolean atEnd = false;
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(options, new StringDeserializer(), new StringDeserializer())) {
            if (group != null) {
                consumer.subscribe(List.of(partition.topic()));
            } else {
                consumer.assign(List.of(partition));
                consumer.seek(partition, wanted.get("offset").asLong());
            }
            long moved = System.nanoTime(); // not before: the first consumer of a JVM takes seconds on a busy machine
            while (!atEnd && System.nanoTime() - moved < idleSeconds * 1e9) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    records.addArray().add(record.offset()).add(record.key()).add(record.value());
                    moved = System.nanoTime();
                }
                if (consumer.assignment().contains(partition)) {
                    long now = consumer.position(partition);
                    if (now != position) {
                        position = now;
                        moved = System.nanoTime();
                    }
                }
                atEnd = position >= end;
            }
        }
        answer.put("position", position);
        answer.put("at_end", atEnd);
    }
}
