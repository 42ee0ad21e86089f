import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.time.Duration;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;

/** Apache Kafka's own client, and Kafka Streams. Orders and events are those of drivers/__init__.py. */
public class Driver {
    interface Client {
        default void send(String topic, String value) throws Exception {}

        default void create(String topic) throws Exception {}

        void close() throws Exception;
    }

    private static final Map<String, Client> clients = new ConcurrentHashMap<>();

    static synchronized void say(String name, Object... words) {
        StringBuilder line = new StringBuilder("@ ").append(name);
        for (Object word : words) {
            line.append(' ').append(word);
        }
        System.out.println(line);
        System.out.flush();
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            String[] words = line.split(" ");
            String name = words[1];
            try {
                switch (words[0]) {
                    case "consume" -> clients.put(name, switch (words[5]) {
                        case "share" -> new ShareConsumer(name, words);
                        case "streams" -> new Streams(name, words);
                        default -> new Consumer(name, words);
                    });
                    case "produce", "transact" -> {
                        clients.put(name, new Producer(name, words[2], words[0].equals("transact")));
                        say(name, "ready");
                    }
                    case "admin" -> {
                        clients.put(name, new Topics(words[2]));
                        say(name, "ready");
                    }
                    case "send" -> {
                        clients.get(name).send(words[2], words[3]);
                        say(name, "sent");
                    }
                    case "create" -> {
                        clients.get(name).create(words[2]);
                        say(name, "created");
                    }
                    default -> close(name);
                }
            } catch (Exception error) {
                say(name, "error", error);
            }
        }
        System.exit(0);
    }

    private static void close(String name) throws Exception {
        Client client = clients.remove(name);
        if (client instanceof Polling) {
            client.close();
            return;
        }
        say(name, "closing");
        client.close();
        say(name, "closed");
    }

    private static Properties options(String bootstrap) {
        Properties options = new Properties();
        options.put("bootstrap.servers", bootstrap);
        return options;
    }

    /** A consumer of the newer protocol gives partitions up and takes them only between two polls. */
    static final Duration POLL = Duration.ofMillis(10);

    /** Polls in a thread of its own, and closes there. */
    abstract static class Polling extends Thread implements Client {
        protected final String topic;
        protected final Properties options;
        private volatile boolean halted = false;

        Polling(String name, String[] words) {
            super(name);
            topic = words[3];
            options = options(words[2]);
            options.put("client.id", name);
            options.put("group.id", words[4]);
            setDaemon(true);
        }

        abstract void open() throws Exception;

        abstract void poll() throws Exception;

        abstract void end();

        @Override
        public void run() {
            try {
                open();
                while (!halted) {
                    poll();
                }
                say(getName(), "closing");
                end();
                say(getName(), "closed");
            } catch (Exception error) {
                say(getName(), "error", error);
            }
        }

        void tell(Iterable<ConsumerRecord<String, String>> records) {
            for (ConsumerRecord<String, String> record : records) {
                say(getName(), "record", record.value());
            }
        }

        @Override
        public void close() {
            halted = true;
        }
    }

    static class Consumer extends Polling implements ConsumerRebalanceListener {
        private final Set<TopicPartition> owned = new HashSet<>();
        private KafkaConsumer<String, String> client;

        Consumer(String name, String[] words) {
            super(name, words);
            options.put("group.protocol", words[5]);
            options.put("auto.offset.reset", words[6]);
            options.put("isolation.level", "read_committed");
            start();
        }

        @Override
        void open() {
            client = new KafkaConsumer<>(options, new StringDeserializer(), new StringDeserializer());
            client.subscribe(List.of(topic), this);
        }

        @Override
        void poll() {
            tell(client.poll(POLL));
        }

        @Override
        void end() {
            client.close();
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            owned.addAll(partitions);
            say(getName(), "assigned", owned.size());
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            owned.removeAll(partitions);
            say(getName(), "assigned", owned.size());
        }
    }

    /** A member of a share group, which does not learn its partitions. */
    static class ShareConsumer extends Polling {
        private KafkaShareConsumer<String, String> client;

        ShareConsumer(String name, String[] words) {
            super(name, words);
            start();
        }

        @Override
        void open() {
            client = new KafkaShareConsumer<>(options, new StringDeserializer(), new StringDeserializer());
            client.subscribe(List.of(topic));
        }

        @Override
        void poll() {
            tell(client.poll(POLL));
        }

        @Override
        void end() {
            client.close();
        }
    }

    /** An instance of Kafka Streams with one thread; its partitions are its tasks. */
    static class Streams extends Polling {
        private KafkaStreams client;
        private long tasks = 0;

        Streams(String name, String[] words) {
            super(name, words);
            options.put("application.id", words[4]);
            options.put("group.protocol", "streams");
            options.put("default.key.serde", Serdes.String().getClass());
            options.put("default.value.serde", Serdes.String().getClass());
            options.put("consumer.auto.offset.reset", words[6]);
            start();
        }

        @Override
        void open() throws Exception {
            options.put("state.dir", Files.createTempDirectory("ottla-waits-").toString());
            StreamsBuilder builder = new StreamsBuilder();
            builder.<String, String>stream(topic).foreach((key, value) -> say(getName(), "record", value));
            client = new KafkaStreams(builder.build(), options);
            client.start();
        }

        @Override
        void poll() throws Exception {
            Thread.sleep(2);
            long found = client.metadataForLocalThreads().stream().mapToLong(thread -> thread.activeTasks().size()).sum();
            if (found != tasks) {
                tasks = found;
                say(getName(), "assigned", found);
            }
        }

        @Override
        void end() {
            client.close();
        }
    }

    static class Producer implements Client {
        private final KafkaProducer<String, String> client;
        private final boolean transactional;

        Producer(String name, String bootstrap, boolean transactional) {
            this.transactional = transactional;
            Properties options = options(bootstrap);
            options.put("client.id", name);
            if (transactional) {
                options.put("transactional.id", name);
            }
            client = new KafkaProducer<>(options, new StringSerializer(), new StringSerializer());
            if (transactional) {
                client.initTransactions();
            }
        }

        @Override
        public void send(String topic, String value) throws Exception {
            ProducerRecord<String, String> record = new ProducerRecord<>(topic, value);
            if (transactional) {
                client.beginTransaction();
                client.send(record);
                client.commitTransaction();
            } else {
                client.send(record).get();
            }
        }

        @Override
        public void close() {
            client.close();
        }
    }

    static class Topics implements Client {
        private final Admin client;

        Topics(String bootstrap) {
            client = Admin.create(options(bootstrap));
        }

        @Override
        public void create(String topic) throws Exception {
            client.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get();
        }

        @Override
        public void close() {
            client.close();
        }
    }
}
