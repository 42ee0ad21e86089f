package external;

import java.io.File;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import java.util.function.Supplier;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.ApiVersionsRequest;
import org.apache.kafka.common.requests.ApiVersionsResponse;
import org.apache.kafka.common.requests.DescribeAclsRequest;
import org.apache.kafka.common.requests.DescribeAclsResponse;
import org.apache.kafka.common.requests.MetadataRequest;
import org.apache.kafka.common.requests.MetadataResponse;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.JaasUtils;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.TestKitDefaults;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.fault.FaultHandlerException;

/**
 * Kafka's view of a test cluster, answered by a broker in another process: what can be asked over the wire is asked of
 * every broker, what needs a server object in this JVM fails with ExternalBrokerError.
 */
public final class ExternalCluster implements ClusterInstance {
    private static final String COMMAND = System.getProperty("external.command");
    private static final long WAIT_MS = 60_000;

    private final ClusterConfig config;
    private final boolean combined;
    private final String clusterId = Uuid.randomUuid().toString();
    private final TreeMap<Integer, Integer> brokerPorts = new TreeMap<>();
    private final TreeMap<Integer, Integer> controllerPorts = new TreeMap<>();
    private final Set<Integer> down = new HashSet<>();
    private final Map<Integer, KafkaBroker> standIns = new HashMap<>();
    private String name = "cluster";
    private Path directory;
    private BrokerProcess process;
    private boolean stopped;
    private boolean internalsUsed;

    public ExternalCluster(ClusterConfig config, boolean combined) {
        this.config = config;
        this.combined = combined;
        int firstController = combined ? TestKitDefaults.BROKER_ID_OFFSET : TestKitDefaults.CONTROLLER_ID_OFFSET;
        for (int i = 0; i < config.numBrokers(); i++) brokerPorts.put(TestKitDefaults.BROKER_ID_OFFSET + i, 0);
        for (int i = 0; i < config.numControllers(); i++) controllerPorts.put(firstController + i, 0);
    }

    /** What tells two configurations of one test apart. */
    public static String label(ClusterConfig config, boolean combined) {
        List<String> parts = new ArrayList<>();
        parts.add(combined ? "combined" : "isolated");
        parts.add(config.brokerSecurityProtocol().name);
        if (config.metadataVersion() != MetadataVersion.latestTesting()) parts.add(config.metadataVersion().toString());
        parts.addAll(config.tags());
        return String.join(", ", parts);
    }

    public void name(String name) {
        this.name = name;
    }

    /** Whether the test reached for something that only a broker in this JVM has. */
    boolean internalsUsed() {
        return internalsUsed;
    }

    // ---- life ----

    @Override
    public void start() {
        if (process != null || stopped) return;
        refuseTestClasses();
        try {
            directory = Files.createTempDirectory("external-cluster-");
            brokerPorts.replaceAll((id, none) -> Ports.free());
            controllerPorts.replaceAll((id, none) -> Ports.free());
            Path file = Files.writeString(directory.resolve("server.properties"), serverProperties());
            List<String> command = new ArrayList<>(List.of(COMMAND.split("\n")));
            command.addAll(List.of("serve", "--config", file.toString()));
            process = new BrokerProcess(command, directory.resolve("broker.log"));
            String addresses = process.await("ready");
            if (addresses.split(",").length != brokerPorts.size())
                throw new IllegalStateException("ready line lists '" + addresses + "', expected " + bootstrapServers());
        } catch (IOException e) {
            throw new IllegalStateException("cannot start the external broker", e);
        } catch (RuntimeException e) {
            if (process != null) process.stop();
            throw e;
        }
    }

    @Override
    public void stop() {
        if (stopped) return;
        stopped = true;
        if (process != null) process.stop();
        if (directory != null) deleteData();
    }

    @Override
    public boolean started() {
        return process != null;
    }

    @Override
    public boolean stopped() {
        return stopped;
    }

    @Override
    public void shutdownBroker(int id) {
        requireBroker(id);
        process.ask("stop " + id, "stopped " + id);
        down.add(id);
    }

    @Override
    public void startBroker(int id) {
        requireBroker(id);
        process.ask("start " + id, "started " + id);
        down.remove(id);
    }

    private void requireBroker(int id) {
        if (!brokerPorts.containsKey(id)) throw new IllegalArgumentException("no broker with id " + id);
    }

    /** Data goes at once; the log stays until the test's outcome is known. */
    private void deleteData() {
        try (Stream<Path> paths = Files.walk(directory)) {
            for (Path path : paths.sorted(Comparator.reverseOrder()).toList())
                if (!path.equals(directory) && !path.getFileName().toString().startsWith("broker.log")
                    && !path.getFileName().toString().equals("server.properties")) Files.deleteIfExists(path);
        } catch (IOException e) {
            System.err.println("left behind: " + directory + ": " + e);
        }
    }

    /** Keeps what explains a failure: the properties, the broker's output and the stack trace. */
    void keepLog(Path folder, Throwable failure) {
        if (directory == null) return;
        StringWriter trace = new StringWriter();
        failure.printStackTrace(new PrintWriter(trace, true));
        try {
            Path to = Files.createDirectories(folder.resolve(name.replaceAll("[^A-Za-z0-9.#-]+", "_")));
            Files.writeString(to.resolve("failure.txt"), trace.toString());
            for (String file : List.of("server.properties", "broker.log", "broker.log.out"))
                if (Files.exists(directory.resolve(file)))
                    Files.copy(directory.resolve(file), to.resolve(file), StandardCopyOption.REPLACE_EXISTING);
        } catch (IOException e) {
            System.err.println("no log kept for " + name + ": " + e);
        }
    }

    // ---- the configuration file ----

    private Map<String, String> sharedProperties() {
        String listener = config.brokerListenerName().value();
        String controllerListener = config.controllerListenerName().value();
        Map<String, String> shared = new LinkedHashMap<>();
        shared.put("node.id", "0");
        shared.put("inter.broker.listener.name", listener);
        shared.put("listener.security.protocol.map", listener + ":" + config.brokerSecurityProtocol().name + ","
            + controllerListener + ":" + config.controllerSecurityProtocol().name);
        shared.put("log.cleaner.dedupe.buffer.size", "2097152");
        shared.put("unstable.feature.versions.enable", "true");
        shared.put("unstable.api.versions.enable", "true");
        addSasl(shared, listener, config.brokerSecurityProtocol());
        addSasl(shared, controllerListener, config.controllerSecurityProtocol());
        shared.putAll(config.serverProperties());
        return shared;
    }

    private Map<String, String> place(int id) {
        Map<String, String> place = new LinkedHashMap<>();
        place.put("listeners", config.brokerListenerName().value() + "://localhost:" + brokerPorts.get(id));
        place.put("log.dirs", dataDirectories(id).stream().map(Path::toString).collect(Collectors.joining(",")));
        return place;
    }

    private String voters() {
        return controllerPorts.entrySet().stream().map(e -> e.getKey() + "@localhost:" + e.getValue()).collect(Collectors.joining(","));
    }

    /** The configuration as Apache Kafka's broker would have it. */
    Properties brokerProperties(int id) {
        Properties properties = new Properties();
        properties.putAll(sharedProperties());
        properties.putAll(place(id));
        properties.putAll(config.perServerOverrideProperties().getOrDefault(id, Map.of()));
        properties.put("node.id", Integer.toString(id));
        boolean controllerToo = controllerPorts.containsKey(id);
        properties.put("process.roles", controllerToo ? "broker,controller" : "broker");
        if (controllerToo) properties.put("listeners", properties.get("listeners") + "," + config.controllerListenerName().value()
            + "://localhost:" + controllerPorts.get(id));
        properties.putIfAbsent("controller.listener.names", config.controllerListenerName().value());
        properties.putIfAbsent("controller.quorum.voters", voters());
        return properties;
    }

    /** What all nodes share and where node 0 is; lines "# node.ID.key=value" set what is one node's own. */
    private String serverProperties() {
        Map<String, String> shared = sharedProperties();
        StringBuilder text = new StringBuilder();
        text.append("# nodes=").append(brokerPorts.size()).append('\n');
        text.append("# cluster.id=").append(clusterId).append('\n');
        text.append("# controllers=").append(voters()).append('\n');
        text.append("# controller.listener=").append(config.controllerListenerName().value()).append('\n');
        text.append("# standalone=").append(config.standalone()).append('\n');
        text.append("# metadata.version=").append(config.metadataVersion()).append('\n');
        config.features().forEach((feature, level) ->
            text.append("# feature.").append(feature.featureName()).append('=').append(level).append('\n'));
        brokerPorts.keySet().forEach(id -> {
            if (id == 0) shared.putAll(place(id));
            else place(id).forEach((key, value) -> text.append("# node.").append(id).append('.').append(line(key, value)));
        });
        config.perServerOverrideProperties().forEach((id, own) ->
            own.forEach((key, value) -> text.append("# node.").append(id).append('.').append(line(key, value))));
        if (controllersWithoutAuthorizer())
            for (int id : controllerPorts.keySet())
                if (!brokerPorts.containsKey(id)) text.append("# node.").append(id).append(".authorizer.class.name=\n");
        shared.forEach((key, value) -> text.append(line(key, value)));
        return text.toString();
    }

    /** The authorizer that comes with SASL is for nodes with a SASL listener: a plaintext controller knows no users. */
    private boolean controllersWithoutAuthorizer() {
        return config.brokerSecurityProtocol() == SecurityProtocol.SASL_PLAINTEXT
            && config.controllerSecurityProtocol() != SecurityProtocol.SASL_PLAINTEXT
            && !config.serverProperties().containsKey("authorizer.class.name");
    }

    private static String line(String key, String value) {
        return key + "=" + value.replace("\\", "\\\\").replace("\n", "\\n") + "\n";
    }

    private List<Path> dataDirectories(int id) {
        return IntStream.range(0, config.numDisksPerBroker())
            .mapToObj(disk -> directory.resolve("broker_" + id + "_data" + disk)).toList();
    }

    private static void addSasl(Map<String, String> properties, String listener, SecurityProtocol protocol) {
        if (protocol != SecurityProtocol.SASL_PLAINTEXT) return;
        properties.put("sasl.enabled.mechanisms", "PLAIN");
        properties.put("sasl.mechanism.inter.broker.protocol", "PLAIN");
        properties.put("sasl.mechanism.controller.protocol", "PLAIN");
        properties.put("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer");
        properties.put("allow.everyone.if.no.acl.found", "false");
        properties.put("super.users", "User:" + JaasUtils.KAFKA_PLAIN_ADMIN);
        properties.put("listener.name." + listener.toLowerCase() + ".plain.sasl.jaas.config",
            "org.apache.kafka.common.security.plain.PlainLoginModule required"
                + " username=\"" + JaasUtils.KAFKA_PLAIN_ADMIN + "\" password=\"" + JaasUtils.KAFKA_PLAIN_ADMIN_PASSWORD + "\""
                + " user_" + JaasUtils.KAFKA_PLAIN_ADMIN + "=\"" + JaasUtils.KAFKA_PLAIN_ADMIN_PASSWORD + "\""
                + " user_" + JaasUtils.KAFKA_PLAIN_USER1 + "=\"" + JaasUtils.KAFKA_PLAIN_USER1_PASSWORD + "\";");
    }

    /** A server property that names a class of Kafka's tests (a policy, a callback) cannot work in another process. */
    private void refuseTestClasses() {
        Stream.concat(config.serverProperties().values().stream(),
                config.perServerOverrideProperties().values().stream().flatMap(own -> own.values().stream()))
            .flatMap(value -> Stream.of(value.split(",")))
            .map(String::trim)
            .filter(value -> value.matches("\\w+(\\.[\\w$]+)+"))
            .filter(ExternalCluster::isTestClass)
            .findFirst()
            .ifPresent(value -> {
                throw internals("it would have to load the test's class " + value);
            });
    }

    private static boolean isTestClass(String className) {
        try {
            Class<?> found = Class.forName(className, false, ExternalCluster.class.getClassLoader());
            return found.getProtectionDomain().getCodeSource() != null
                && found.getProtectionDomain().getCodeSource().getLocation().getPath().endsWith("-test.jar");
        } catch (ClassNotFoundException | LinkageError e) {
            return false;
        }
    }

    // ---- what is known without asking ----

    @Override
    public Type type() {
        return combined ? Type.CO_KRAFT : Type.KRAFT;
    }

    @Override
    public ClusterConfig config() {
        return config;
    }

    /** In order, and the caller's own: tests take its first element and remove from it. */
    @Override
    public Set<Integer> brokerIds() {
        return new TreeSet<>(brokerPorts.keySet());
    }

    @Override
    public Set<Integer> controllerIds() {
        return new TreeSet<>(controllerPorts.keySet());
    }

    @Override
    public List<Integer> brokerBoundPorts() {
        return List.copyOf(brokerPorts.values());
    }

    @Override
    public List<Integer> controllerBoundPorts() {
        return List.copyOf(controllerPorts.values());
    }

    @Override
    public String bootstrapServers() {
        return addresses(brokerPorts);
    }

    @Override
    public String bootstrapControllers() {
        return addresses(controllerPorts);
    }

    private static String addresses(Map<Integer, Integer> ports) {
        return ports.values().stream().map(port -> "localhost:" + port).collect(Collectors.joining(","));
    }

    @Override
    public ListenerName clientListener() {
        return config.brokerListenerName();
    }

    @Override
    public ListenerName controllerListenerName() {
        return config.controllerListenerName();
    }

    // ---- what only a server in this JVM has ----

    @Override
    public Map<Integer, KafkaBroker> brokers() {
        return new NodeMap<>(brokerPorts.keySet(), this::standIn);
    }

    @Override
    public Map<Integer, KafkaBroker> aliveBrokers() {
        return new NodeMap<>(aliveIds(), this::standIn);
    }

    @Override
    public Map<Integer, ControllerServer> controllers() {
        return new NodeMap<>(controllerPorts.keySet(), id -> StandIns.controller(this));
    }

    @Override
    public List<Authorizer> authorizers() {
        throw internals("its authorizer is not in this JVM");
    }

    private KafkaBroker standIn(int id) {
        return standIns.computeIfAbsent(id, any -> StandIns.broker(this, id));
    }

    /** Notes that the test cannot pass, and says why. */
    ExternalBrokerError internals(String reason) {
        internalsUsed = true;
        return new ExternalBrokerError(reason);
    }

    boolean isDown(int id) {
        return down.contains(id);
    }

    int brokerPort(int id) {
        return brokerPorts.get(id);
    }

    @Override
    public Optional<FaultHandlerException> firstFatalException() {
        return process != null && !stopped && !process.alive()
            ? Optional.of(new FaultHandlerException("the external broker has exited")) : Optional.empty();
    }

    @Override
    public Optional<FaultHandlerException> firstNonFatalException() {
        return Optional.empty();
    }

    // ---- what is asked over the wire, of each broker that is up ----

    @Override
    public String clusterId() {
        try (Admin admin = admin()) {
            return admin.describeCluster().clusterId().get();
        } catch (ExecutionException | InterruptedException e) {
            throw new IllegalStateException("cannot read the cluster id", e);
        }
    }

    @Override
    public Set<GroupProtocol> supportedGroupProtocols() {
        boolean consumer = everyBroker(wire -> wire.call(new ApiVersionsRequest.Builder(), 3, ApiVersionsResponse.class))
            .stream().allMatch(ExternalCluster::offersConsumerProtocol);
        return consumer ? Set.of(GroupProtocol.CLASSIC, GroupProtocol.CONSUMER) : Set.of(GroupProtocol.CLASSIC);
    }

    private static boolean offersConsumerProtocol(ApiVersionsResponse response) {
        boolean hasApi = response.data().apiKeys().find(ApiKeys.CONSUMER_GROUP_HEARTBEAT.id) != null;
        var finalized = response.data().finalizedFeatures().find("group.version");
        return hasApi && finalized != null && finalized.maxVersionLevel() >= 1;
    }

    @Override
    public void waitForReadyBrokers() throws InterruptedException {
        waitFor(WAIT_MS, "Not every broker sees all the others", () -> everyBroker(ExternalCluster::allMetadata).stream()
            .allMatch(seen -> seen.data().brokers().stream().map(broker -> broker.nodeId()).collect(Collectors.toSet())
                .equals(aliveIds())));
    }

    @Override
    public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
        if (partitions <= 0) throw new IllegalArgumentException("partitions must be positive, not " + partitions);
        waitFor(WAIT_MS, topic + " has not reached every broker", () -> everyBroker(ExternalCluster::allMetadata).stream()
            .allMatch(seen -> seen.data().topics().find(topic) != null
                && seen.data().topics().find(topic).partitions().size() == partitions));
        ensureConsistentMetadata();
    }

    @Override
    public void waitTopicDeletion(String topic) throws InterruptedException {
        waitFor(WAIT_MS, topic + " is still known to a broker", () -> everyBroker(ExternalCluster::allMetadata).stream()
            .allMatch(seen -> seen.data().topics().find(topic) == null));
        ensureConsistentMetadata();
        waitFor(15_000, "A broker still reports a log of " + topic, () -> reportsNoLog(topic));
        waitFor(15_000, "A directory of " + topic + " is still on disk", () -> hasNoDirectory(topic));
    }

    private boolean reportsNoLog(String topic) {
        try (Admin admin = admin()) {
            return admin.describeLogDirs(aliveIds()).allDescriptions().get().values().stream()
                .flatMap(disks -> disks.values().stream())
                .flatMap(disk -> disk.replicaInfos().keySet().stream())
                .noneMatch(partition -> partition.topic().equals(topic));
        } catch (ExecutionException | InterruptedException e) {
            throw new IllegalStateException("cannot describe log directories", e);
        }
    }

    /** Neither the partition's directory nor one renamed to "topic-0.ID-delete". */
    private boolean hasNoDirectory(String topic) {
        Predicate<String> ofTopic = entry -> entry.matches(Pattern.quote(topic) + "-\\d+(\\..*-delete)?");
        return aliveIds().stream().flatMap(id -> dataDirectories(id).stream())
            .flatMap(disk -> Stream.of(Optional.ofNullable(disk.toFile().listFiles()).orElse(new File[0])))
            .noneMatch(entry -> ofTopic.test(entry.getName()));
    }

    @Override
    public void ensureConsistentMetadata() throws InterruptedException {
        waitFor(WAIT_MS, "Brokers disagree about topics", () ->
            everyBroker(ExternalCluster::allMetadata).stream().map(ExternalCluster::picture).distinct().count() == 1);
    }

    /** Topics, partitions, leaders, epochs and replicas, in an order of their own. */
    private static Map<String, List<String>> picture(MetadataResponse seen) {
        Map<String, List<String>> topics = new TreeMap<>();
        seen.data().topics().forEach(topic -> topics.put(topic.name(), topic.partitions().stream()
            .sorted(Comparator.comparingInt(partition -> partition.partitionIndex()))
            .map(p -> p.partitionIndex() + " " + p.leaderId() + " " + p.leaderEpoch() + " " + p.replicaNodes() + " " + p.isrNodes())
            .toList()));
        return topics;
    }

    @Override
    public void waitAcls(AclBindingFilter filter, Collection<AccessControlEntry> expected) throws InterruptedException {
        Set<AccessControlEntry> entries = new HashSet<>(expected);
        waitFor(15_000, "Expected ACLs " + entries, () ->
            everyBroker(wire -> wire.call(new DescribeAclsRequest.Builder(filter), 2, DescribeAclsResponse.class)).stream()
                .allMatch(seen -> DescribeAclsResponse.aclBindings(seen.acls()).stream().map(AclBinding::entry)
                    .collect(Collectors.toSet()).equals(entries)));
    }

    MetadataResponse metadata(int id) {
        return ask(id, ExternalCluster::allMetadata);
    }

    /** A broker as another one describes it, or no node. */
    Node node(int asked, int id) {
        return metadata(asked).brokers().stream().filter(node -> node.id() == id).findFirst().orElse(Node.noNode());
    }

    private static MetadataResponse allMetadata(Wire wire) throws IOException {
        MetadataResponse seen = wire.call(MetadataRequest.Builder.allTopics(), 12, MetadataResponse.class);
        if (seen.topLevelError() != Errors.NONE) throw new IOException("metadata: " + seen.topLevelError());
        return seen;
    }

    private Set<Integer> aliveIds() {
        Set<Integer> alive = new TreeSet<>(brokerPorts.keySet());
        alive.removeAll(down);
        return alive;
    }

    private interface Question<T> {
        T ask(Wire wire) throws IOException;
    }

    private <T> List<T> everyBroker(Question<T> question) {
        return aliveIds().stream().map(id -> ask(id, question)).toList();
    }

    private <T> T ask(int id, Question<T> question) {
        boolean sasl = config.brokerSecurityProtocol() == SecurityProtocol.SASL_PLAINTEXT;
        try (Wire wire = new Wire(brokerPorts.get(id), sasl ? JaasUtils.KAFKA_PLAIN_ADMIN : null, JaasUtils.KAFKA_PLAIN_ADMIN_PASSWORD)) {
            return question.ask(wire);
        } catch (IOException e) {
            throw new IllegalStateException("broker " + id + " does not answer", e);
        }
    }

    /** Fails as Kafka's own waits do: with an AssertionError, after the last try threw or said no. */
    private static void waitFor(long timeoutMs, String message, Supplier<Boolean> condition) throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMs);
        while (true) {
            RuntimeException failure = null;
            try {
                if (condition.get()) return;
            } catch (RuntimeException e) {
                failure = e;
            }
            if (System.nanoTime() > deadline) throw new AssertionError(message + " (waited " + timeoutMs + " ms)", failure);
            Thread.sleep(50);
        }
    }
}
