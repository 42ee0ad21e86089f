import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.DisconnectException;
import org.apache.kafka.common.errors.SslAuthenticationException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Apache Kafka's own clients, a line at a time: reads and answers as README.md says. */
public class Driver {
    static final ObjectMapper JSON = new ObjectMapper();
    static final Map<String, Action> ACTIONS = new TreeMap<>();
    static final byte[] NO_HMAC = new byte[64];

    /** One action of the table; its error is an exception. */
    interface Action {
        void run(Session session, JsonNode given) throws Exception;
    }

    /** An error that no client raised. */
    static final class Refused extends Exception {
        Refused(String result) {
            super(result);
        }
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // whatever logs does so there
        Map<JsonNode, Session> sessions = new HashMap<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(JSON.writeValueAsString(answer((ObjectNode) JSON.readTree(line), sessions)));
            answers.flush();
        }
        System.exit(0); // clients that are left would wait for a broker that has gone
    }

    /** The clients' version, from their jar: the class that reads it is another one in each release. */
    static String version() {
        Properties found = new Properties();
        try (InputStream in = KafkaConsumer.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            found.load(in);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return found.getProperty("version");
    }

    static ObjectNode answer(ObjectNode asked, Map<JsonNode, Session> sessions) {
        ObjectNode answer = JSON.createObjectNode();
        String name = asked.get("action").asText();
        if (name.equals("actions")) {
            ACTIONS.keySet().forEach(answer.putArray("actions")::add);
            return answer.put("client", "Apache Kafka's clients " + version());
        }
        if (!ACTIONS.containsKey(name)) {
            return told(answer, "unsupported", "", name);
        }
        boolean isKept = asked.path("keep").asBoolean();
        JsonNode given = asked.path("arguments");
        ObjectNode login = asked.deepCopy().without(List.of("action", "arguments", "keep"));
        Session session = sessions.computeIfAbsent(login, Session::new);
        try {
            ACTIONS.get(name).run(session, given);
            return told(answer, "ok", "", "");
        } catch (Refused refused) {
            return told(answer, refused.getMessage(), "", "");
        } catch (Exception | OutOfMemoryError raised) { // the latter of what TLS says to a client without
            Throwable error = cause(raised);
            Errors known = Errors.forException(error);
            boolean isNamed = known.exception().getClass() == error.getClass() && !(error instanceof TimeoutException);
            String result = isNamed ? known.name() : error.getClass().getSimpleName();
            return told(answer, result, isFromBroker(error) ? String.valueOf(error.getMessage()) : "", raised.toString());
        } finally {
            if (!isKept) {
                sessions.remove(login).close();
            }
        }
    }

    static ObjectNode told(ObjectNode answer, String result, String said, String detail) {
        return answer.put("result", result).put("said", said).put("detail", detail);
    }

    /** What it is about, of exceptions that only say where it came up. */
    static Throwable cause(Throwable error) {
        while (error.getCause() != null
            && (error instanceof ExecutionException || error instanceof CompletionException
                || error.getClass() == KafkaException.class)) {
            error = error.getCause();
        }
        return error;
    }

    /** Time-outs and the like are the client's own, with its own words. */
    static boolean isFromBroker(Throwable error) {
        return error instanceof ApiException && !(error instanceof TimeoutException)
            && !(error instanceof DisconnectException) && !(error instanceof SslAuthenticationException);
    }

    /** The clients of one login. */
    static class Session {
        final long timeoutMs;
        private final Map<String, Object> login = new HashMap<>();
        private final List<AutoCloseable> open = new ArrayList<>();
        private Admin admin;
        private KafkaConsumer<String, String> looking;

        Session(JsonNode line) {
            timeoutMs = line.path("timeout_ms").asLong(10_000);
            String protocol = line.get("protocol").asText();
            login.put("bootstrap.servers", line.get("bootstrap").asText());
            login.put("security.protocol", protocol);
            login.put("request.timeout.ms", (int) timeoutMs);
            login.put("reconnect.backoff.ms", "50");
            login.put("reconnect.backoff.max.ms", "200");
            if (protocol.endsWith("SSL")) {
                putTls(line);
            }
            if (protocol.startsWith("SASL")) {
                putSasl(line);
            }
        }

        private void putTls(JsonNode line) {
            if (line.has("ca")) {
                login.put("ssl.truststore.type", "PEM");
                login.put("ssl.truststore.location", line.get("ca").asText());
            }
            if (line.has("certificate")) {
                login.put("ssl.keystore.type", "PEM");
                login.put("ssl.keystore.certificate.chain", pem(line.get("certificate").asText(), "CERTIFICATE"));
                login.put("ssl.keystore.key", pem(line.get("key").asText(), "PRIVATE KEY"));
            }
        }

        private static String pem(String file, String label) {
            try {
                Pattern parts = Pattern.compile("-----BEGIN " + label + "-----.*?-----END " + label + "-----\n", Pattern.DOTALL);
                StringBuilder found = new StringBuilder();
                Matcher matcher = parts.matcher(Files.readString(Path.of(file)));
                while (matcher.find()) {
                    found.append(matcher.group());
                }
                return found.toString();
            } catch (IOException error) {
                throw new KafkaException(error);
            }
        }

        private void putSasl(JsonNode line) {
            String mechanism = line.path("mechanism").asText();
            String modules = "org.apache.kafka.common.security.";
            String module;
            login.put("sasl.mechanism", mechanism);
            if (mechanism.equals("OAUTHBEARER")) {
                module = modules + "oauthbearer.OAuthBearerLoginModule required token=" + quoted(line, "token");
                login.put("sasl.login.callback.handler.class", GivenToken.class);
            } else {
                module = modules + (mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule")
                    + " required username=" + quoted(line, "username") + " password=" + quoted(line, "password");
                if (line.path("is_token_login").asBoolean()) {
                    module += " tokenauth=\"true\"";
                }
            }
            login.put("sasl.jaas.config", module + ";");
        }

        private static String quoted(JsonNode line, String name) {
            return '"' + line.path(name).asText().replace("\\", "\\\\").replace("\"", "\\\"") + '"';
        }

        Admin admin() {
            if (admin == null) {
                Map<String, Object> options = new HashMap<>(login);
                options.put("default.api.timeout.ms", (int) timeoutMs);
                admin = opened(Admin.create(options));
            }
            return admin;
        }

        KafkaProducer<String, String> producer(Object... more) {
            Map<String, Object> options = options(more);
            options.putIfAbsent("enable.idempotence", options.containsKey("transactional.id"));
            options.put("max.block.ms", timeoutMs);
            options.put("delivery.timeout.ms", (int) timeoutMs);
            options.put("linger.ms", 0);
            return opened(new KafkaProducer<>(options, new StringSerializer(), new StringSerializer()));
        }

        KafkaConsumer<String, String> consumer(Object... more) {
            Map<String, Object> options = options(more);
            options.put("default.api.timeout.ms", (int) timeoutMs);
            options.put("auto.offset.reset", "earliest");
            options.put("enable.auto.commit", false);
            options.put("allow.auto.create.topics", false);
            return opened(new KafkaConsumer<>(options, new StringDeserializer(), new StringDeserializer()));
        }

        /** One that stays, as long as its session does. */
        KafkaConsumer<String, String> looking() {
            if (looking == null) {
                looking = consumer();
            }
            return looking;
        }

        private Map<String, Object> options(Object... more) {
            Map<String, Object> options = new HashMap<>(login);
            for (int at = 0; at < more.length; at += 2) {
                options.put((String) more[at], more[at + 1]);
            }
            return options;
        }

        private <T extends AutoCloseable> T opened(T client) {
            open.add(client);
            return client;
        }

        <T> T get(KafkaFuture<T> future) throws Exception {
            return future.get(timeoutMs + 2000, TimeUnit.MILLISECONDS);
        }

        void close() {
            for (AutoCloseable client : open) {
                try {
                    Duration limit = Duration.ofMillis(500);
                    if (client instanceof KafkaProducer<?, ?> producer) {
                        producer.close(limit);
                    } else if (client instanceof KafkaConsumer<?, ?> consumer) {
                        consumer.close(CloseOptions.timeout(limit));
                    } else if (client instanceof Admin one) {
                        one.close(limit);
                    }
                } catch (Exception error) {
                    System.err.println(error);
                }
            }
        }
    }

    /** Logs in with the token of the line of JAAS, whatever that is. */
    public static class GivenToken implements AuthenticateCallbackHandler {
        private String token;

        @Override
        public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) {
            token = (String) entries.get(0).getOptions().get("token");
        }

        @Override
        public void handle(Callback[] callbacks) throws UnsupportedCallbackException {
            for (Callback callback : callbacks) {
                if (callback instanceof OAuthBearerTokenCallback asked) {
                    asked.token(new Bearer(token, System.currentTimeMillis()));
                } else if (!callback.getClass().getSimpleName().equals("SaslExtensionsCallback")) {
                    throw new UnsupportedCallbackException(callback);
                }
            }
        }

        @Override
        public void close() {
        }
    }

    record Bearer(String value, long nowMs) implements OAuthBearerToken {
        @Override
        public Set<String> scope() {
            return Set.of();
        }

        @Override
        public long lifetimeMs() {
            return nowMs + 3_600_000;
        }

        @Override
        public String principalName() {
            return "somebody";
        }

        @Override
        public Long startTimeMs() {
            return nowMs;
        }
    }

    // -- what actions have in common

    static String topic(JsonNode given) {
        return given.get("topic").asText();
    }

    static String group(JsonNode given) {
        return given.get("group").asText();
    }

    static String transactionalId(JsonNode given) {
        return given.get("transactional_id").asText();
    }

    static TopicPartition partition(JsonNode given) {
        return new TopicPartition(topic(given), 0);
    }

    static Map<TopicPartition, OffsetAndMetadata> offset(JsonNode given, long offset) {
        return Map.of(partition(given), new OffsetAndMetadata(offset));
    }

    static void send(KafkaProducer<String, String> producer, JsonNode given) throws Exception {
        producer.send(new ProducerRecord<>(topic(given), 0, "k", "v")).get();
    }

    static KafkaProducer<String, String> begun(Session session, JsonNode given) {
        KafkaProducer<String, String> producer = session.producer(
            "transactional.id", transactionalId(given), "transaction.timeout.ms", 10_000);
        producer.initTransactions();
        producer.beginTransaction();
        return producer;
    }

    static void polled(Session session, KafkaConsumer<String, String> consumer) throws Refused {
        long due = System.nanoTime() + session.timeoutMs * 1_000_000;
        while (System.nanoTime() < due) {
            if (!consumer.poll(Duration.ofMillis(100)).isEmpty()) {
                return;
            }
        }
        throw new Refused("no record");
    }

    static void inGroup(Session session, JsonNode given, String protocol) throws Exception {
        try (KafkaConsumer<String, String> consumer =
                session.consumer("group.id", group(given), "group.protocol", protocol)) {
            if (protocol.equals("consumer")) {
                consumer.partitionsFor(topic(given)); // else topic and group are asked for at once, and the first error counts
            }
            consumer.subscribe(List.of(topic(given)));
            polled(session, consumer);
            consumer.commitSync();
        }
    }

    static void alter(Session session, ConfigResource.Type type, String name, String option, String value) throws Exception {
        AlterConfigOp set = new AlterConfigOp(new ConfigEntry(option, value), AlterConfigOp.OpType.SET);
        session.get(session.admin().incrementalAlterConfigs(Map.of(new ConfigResource(type, name), List.of(set))).all());
    }

    static void configs(Session session, ConfigResource.Type type, String name) throws Exception {
        session.get(session.admin().describeConfigs(List.of(new ConfigResource(type, name))).all());
    }

    static void create(Session session, JsonNode given, boolean validateOnly) throws Exception {
        NewTopic topic = new NewTopic(topic(given), 1, (short) 1);
        session.get(session.admin()
            .createTopics(List.of(topic), new CreateTopicsOptions().validateOnly(validateOnly)).all());
    }

    static <T> void among(Set<T> found, T wanted) throws Refused {
        if (!found.contains(wanted)) {
            throw new Refused("missing");
        }
    }

    static AclBindingFilter entries(String principal) {
        return new AclBindingFilter(
            new ResourcePatternFilter(ResourceType.TOPIC, "none", PatternType.LITERAL),
            new AccessControlEntryFilter(principal, null, AclOperation.ANY, AclPermissionType.ANY));
    }

    // -- records

    static {
        ACTIONS.put("metadata", (session, given) -> {
            if (session.looking().partitionsFor(topic(given)).isEmpty()) {
                throw new Refused("missing");
            }
        });
        ACTIONS.put("produce", (session, given) -> send(session.producer("acks", "1"), given));
        ACTIONS.put("produce_creating", ACTIONS.get("produce"));
        ACTIONS.put("produce_acks_all", (session, given) -> send(session.producer("acks", "all"), given));
        ACTIONS.put("produce_idempotent", (session, given) -> send(session.producer("enable.idempotence", true), given));
        ACTIONS.put("init_transactions", (session, given) ->
            session.producer("transactional.id", transactionalId(given)).initTransactions());
        ACTIONS.put("produce_transactional", (session, given) -> {
            KafkaProducer<String, String> producer = begun(session, given);
            send(producer, given);
            producer.commitTransaction();
        });
        ACTIONS.put("abort_transactional", (session, given) -> {
            KafkaProducer<String, String> producer = begun(session, given);
            send(producer, given);
            producer.abortTransaction();
        });
        ACTIONS.put("send_offsets", (session, given) -> {
            KafkaProducer<String, String> producer = begun(session, given);
            producer.sendOffsetsToTransaction(offset(given, 1), session.consumer("group.id", group(given)).groupMetadata());
            producer.commitTransaction();
        });
        ACTIONS.put("consume", (session, given) -> {
            KafkaConsumer<String, String> consumer = session.consumer();
            consumer.assign(List.of(partition(given)));
            consumer.seek(partition(given), 0);
            polled(session, consumer);
        });
        ACTIONS.put("end_offsets", (session, given) -> session.consumer().endOffsets(List.of(partition(given))));
        ACTIONS.put("offsets_for_times", (session, given) ->
            session.consumer().offsetsForTimes(Map.of(partition(given), 0L)));
        ACTIONS.put("consume_in_group", (session, given) -> inGroup(session, given, "classic"));
        ACTIONS.put("consume_in_group_consumer_protocol", (session, given) -> inGroup(session, given, "consumer"));
        ACTIONS.put("commit", (session, given) -> {
            KafkaConsumer<String, String> consumer = session.consumer("group.id", group(given));
            consumer.assign(List.of(partition(given)));
            consumer.commitSync(offset(given, 1));
        });
        ACTIONS.put("committed", (session, given) -> {
            KafkaConsumer<String, String> consumer = session.consumer("group.id", group(given));
            consumer.assign(List.of(partition(given)));
            if (consumer.committed(Set.of(partition(given))).get(partition(given)) == null) {
                throw new Refused("missing");
            }
        });
    }

    // -- topics

    static {
        ACTIONS.put("create_topics", (session, given) -> create(session, given, false));
        ACTIONS.put("create_topics_by_cluster", ACTIONS.get("create_topics"));
        ACTIONS.put("create_topics_validate_only", (session, given) -> create(session, given, true));
        ACTIONS.put("create_partitions", (session, given) ->
            session.get(session.admin().createPartitions(Map.of(topic(given), NewPartitions.increaseTo(3))).all()));
        ACTIONS.put("delete_topics", (session, given) ->
            session.get(session.admin().deleteTopics(List.of(topic(given))).all()));
        ACTIONS.put("delete_records", (session, given) ->
            session.get(session.admin().deleteRecords(Map.of(partition(given), RecordsToDelete.beforeOffset(1))).all()));
        ACTIONS.put("describe_topics", (session, given) ->
            session.get(session.admin().describeTopics(List.of(topic(given))).allTopicNames()));
        ACTIONS.put("list_topics", (session, given) -> session.get(session.admin().listTopics().names()));
        ACTIONS.put("list_offsets", (session, given) ->
            session.get(session.admin().listOffsets(Map.of(partition(given), OffsetSpec.latest())).all()));
        ACTIONS.put("describe_producers", (session, given) ->
            session.get(session.admin().describeProducers(List.of(partition(given))).all()));
        ACTIONS.put("elect_leaders", (session, given) ->
            session.get(session.admin().electLeaders(ElectionType.PREFERRED, Set.of(partition(given))).all()));
        ACTIONS.put("alter_partition_reassignments", (session, given) -> {
            Optional<NewPartitionReassignment> here = Optional.of(new NewPartitionReassignment(List.of(0)));
            session.get(session.admin().alterPartitionReassignments(Map.of(partition(given), here)).all());
        });
        ACTIONS.put("list_partition_reassignments", (session, given) ->
            session.get(session.admin().listPartitionReassignments().reassignments()));
    }

    // -- configs

    static {
        ACTIONS.put("describe_configs", (session, given) -> configs(session, ConfigResource.Type.TOPIC, topic(given)));
        ACTIONS.put("describe_broker_configs", (session, given) -> configs(session, ConfigResource.Type.BROKER, "0"));
        ACTIONS.put("describe_group_configs", (session, given) -> configs(session, ConfigResource.Type.GROUP, group(given)));
        ACTIONS.put("alter_configs", (session, given) ->
            alter(session, ConfigResource.Type.TOPIC, topic(given), "retention.ms", "1000000"));
        ACTIONS.put("alter_broker_configs", (session, given) ->
            alter(session, ConfigResource.Type.BROKER, "0", "log.cleaner.threads", "1"));
        ACTIONS.put("alter_group_configs", (session, given) ->
            alter(session, ConfigResource.Type.GROUP, group(given), "consumer.session.timeout.ms", "45000"));
        ACTIONS.put("list_config_resources", (session, given) ->
            session.get(session.admin().listConfigResources().all()));
    }

    // -- groups

    static {
        ACTIONS.put("list_groups", (session, given) -> session.get(session.admin().listGroups().all()));
        ACTIONS.put("describe_groups", (session, given) ->
            session.get(session.admin().describeClassicGroups(List.of(group(given))).all()));
        ACTIONS.put("delete_groups", (session, given) ->
            session.get(session.admin().deleteConsumerGroups(List.of(group(given))).all()));
        ACTIONS.put("list_group_offsets", (session, given) -> {
            ListConsumerGroupOffsetsSpec spec =
                new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(partition(given)));
            among(session.get(session.admin().listConsumerGroupOffsets(Map.of(group(given), spec))
                .partitionsToOffsetAndMetadata(group(given))).keySet(), partition(given));
        });
        ACTIONS.put("alter_group_offsets", (session, given) ->
            session.get(session.admin().alterConsumerGroupOffsets(group(given), offset(given, 0)).all()));
        ACTIONS.put("delete_group_offsets", (session, given) ->
            session.get(session.admin().deleteConsumerGroupOffsets(group(given), Set.of(partition(given))).all()));
        ACTIONS.put("remove_group_members", (session, given) -> {
            RemoveMembersFromConsumerGroupOptions nobody =
                new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("nobody")));
            session.get(session.admin().removeMembersFromConsumerGroup(group(given), nobody).all());
        });
    }

    // -- transactions

    static {
        ACTIONS.put("describe_transactions", (session, given) ->
            session.get(session.admin().describeTransactions(List.of(transactionalId(given))).all()));
        ACTIONS.put("list_transactions", (session, given) -> session.get(session.admin().listTransactions().all()));
        ACTIONS.put("fence_producers", (session, given) ->
            session.get(session.admin().fenceProducers(List.of(transactionalId(given))).all()));
        ACTIONS.put("abort_hanging_transaction", (session, given) -> session.get(
            session.admin().abortTransaction(new AbortTransactionSpec(partition(given), 1234, (short) 0, 0)).all()));
    }

    // -- the cluster

    static {
        ACTIONS.put("describe_cluster", (session, given) -> session.get(session.admin().describeCluster().nodes()));
        ACTIONS.put("describe_features", (session, given) ->
            session.get(session.admin().describeFeatures().featureMetadata()));
        ACTIONS.put("update_features", (session, given) -> {
            FeatureUpdate down = new FeatureUpdate((short) 0, FeatureUpdate.UpgradeType.SAFE_DOWNGRADE);
            session.get(session.admin().updateFeatures(
                Map.of("metadata.version", down), new UpdateFeaturesOptions().validateOnly(true)).all());
        });
        ACTIONS.put("describe_metadata_quorum", (session, given) ->
            session.get(session.admin().describeMetadataQuorum().quorumInfo()));
        ACTIONS.put("unregister_broker", (session, given) -> session.get(session.admin().unregisterBroker(77).all()));
        ACTIONS.put("describe_log_dirs", (session, given) ->
            session.get(session.admin().describeLogDirs(List.of(0)).allDescriptions()));
        ACTIONS.put("alter_replica_log_dirs", (session, given) -> session.get(session.admin().alterReplicaLogDirs(
            Map.of(new TopicPartitionReplica(topic(given), 0, 0), "/no/such/directory")).all()));
    }

    // -- security and quotas

    static {
        ACTIONS.put("create_acls", (session, given) -> session.get(session.admin().createAcls(List.of(new AclBinding(
            new ResourcePattern(ResourceType.TOPIC, "none", PatternType.LITERAL),
            new AccessControlEntry("User:nobody", "*", AclOperation.READ, AclPermissionType.ALLOW)))).all()));
        ACTIONS.put("describe_acls", (session, given) ->
            session.get(session.admin().describeAcls(entries(null)).values()));
        ACTIONS.put("delete_acls", (session, given) ->
            session.get(session.admin().deleteAcls(List.of(entries("User:nobody-else"))).all()));
        ACTIONS.put("describe_scram_users", (session, given) ->
            session.get(session.admin().describeUserScramCredentials().all()));
        ACTIONS.put("alter_scram_users", (session, given) -> session.get(session.admin().alterUserScramCredentials(
            List.of(new UserScramCredentialUpsertion(
                "made", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), "secret"))).all()));
        ACTIONS.put("describe_client_quotas", (session, given) ->
            session.get(session.admin().describeClientQuotas(ClientQuotaFilter.all()).entities()));
        ACTIONS.put("alter_client_quotas", (session, given) -> session.get(session.admin().alterClientQuotas(
            List.of(new ClientQuotaAlteration(
                new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, "nobody")),
                List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1_000_000.0))))).all()));
        ACTIONS.put("create_delegation_token", (session, given) ->
            session.get(session.admin().createDelegationToken().delegationToken()));
        ACTIONS.put("describe_delegation_tokens", (session, given) ->
            session.get(session.admin().describeDelegationToken().delegationTokens()));
        ACTIONS.put("renew_delegation_token", (session, given) ->
            session.get(session.admin().renewDelegationToken(NO_HMAC).expiryTimestamp()));
        ACTIONS.put("expire_delegation_token", (session, given) ->
            session.get(session.admin().expireDelegationToken(NO_HMAC).expiryTimestamp()));
    }
}
