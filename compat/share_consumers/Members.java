import java.io.FileOutputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Members of a share group that can be killed. Arguments: brokers, group, topic, then a file for each member; or `configs`; or
 * `lags`, which prints how many records of each partition are not acknowledged.
 *
 * A member's file has a line for each thing that was done with a record: kind, nanoseconds of the machine's clock, partition,
 * offset, and how often it was delivered or why it failed. Kinds: R received, A accepted and told so, X released and told so, F
 * acknowledged and refused. Lines of R are in the file before anything is acknowledged.
 */
public class Members {
    static final int RELEASED_EVERY = 997;
    /** What is done with a record takes so long: who is killed holds some, mostly. */
    static final int WORK_MS = 1;

    public static void main(String[] arguments) throws Exception {
        String brokers = arguments[0], group = arguments[1], topic = arguments[2];
        if (arguments[3].equals("configs") || arguments[3].equals("lags")) {
            try (Admin admin = Admin.create(Map.of("bootstrap.servers", brokers))) {
                if (arguments[3].equals("configs")) {
                    ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
                    List<AlterConfigOp> changes = List.of(
                        new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET));
                    admin.incrementalAlterConfigs(Map.of(resource, changes)).all().get();
                    return;
                }
                admin.listShareGroupOffsets(Map.of(group, new ListShareGroupOffsetsSpec())).partitionsToOffsetInfo(group).get()
                    .forEach((partition, found) -> System.out.println(partition.partition() + " " + found.lag().orElse(-1L)));
            }
            return;
        }
        for (int number = 3; number < arguments.length; number++) {
            OutputStream out = new FileOutputStream(arguments[number], true);
            Thread thread = new Thread(() -> {
                try {
                    member(brokers, group, topic, out);
                } catch (Exception error) {
                    error.printStackTrace();
                    Runtime.getRuntime().halt(1);
                }
            });
            thread.setDaemon(true);
            thread.start();
        }
        while (System.in.read() >= 0) { }
    }

    static void member(String brokers, String group, String topic, OutputStream out) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", brokers);
        settings.put("group.id", group);
        settings.put("share.acknowledgement.mode", "explicit");
        settings.put("max.poll.records", "200");
        settings.put("key.deserializer", ByteArrayDeserializer.class);
        settings.put("value.deserializer", ByteArrayDeserializer.class);
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(settings)) {
            consumer.subscribe(List.of(topic));
            while (true) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(500));
                if (records.isEmpty())
                    continue;
                StringBuilder lines = new StringBuilder();
                long now = System.nanoTime();
                List<ConsumerRecord<byte[], byte[]>> released = new ArrayList<>();
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    short count = record.deliveryCount().orElse((short) 0);
                    lines.append(line("R", now, record, count));
                    boolean again = count == 1 && record.offset() % RELEASED_EVERY == 0;
                    if (again)
                        released.add(record);
                    consumer.acknowledge(record, again ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
                }
                out.write(lines.toString().getBytes(StandardCharsets.UTF_8));
                Thread.sleep(WORK_MS * records.count());
                Map<TopicIdPartition, Optional<KafkaException>> told = consumer.commitSync(Duration.ofSeconds(30));
                long end = System.nanoTime();
                lines.setLength(0);
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    String refused = told.entrySet().stream()
                        .filter(entry -> entry.getKey().partition() == record.partition())
                        .map(entry -> entry.getValue().map(error -> error.getClass().getSimpleName()).orElse(""))
                        .findFirst().orElse("NotTold");
                    String kind = refused.isEmpty() ? released.contains(record) ? "X" : "A" : "F";
                    lines.append(line(kind, end, record, refused.isEmpty() ? "-" : refused));
                }
                out.write(lines.toString().getBytes(StandardCharsets.UTF_8));
            }
        }
    }

    static String line(String kind, long nanoseconds, ConsumerRecord<byte[], byte[]> record, Object more) {
        return kind + " " + nanoseconds + " " + record.partition() + " " + record.offset() + " " + more + "\n";
    }
}
