package org.apache.kafka.common.test;

import external.ExternalCluster;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import kafka.server.KafkaBroker;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;

/**
 * Stands in front of the class of the same name in kafka-test-common-runtime: Kafka Streams' integration tests make their
 * cluster with it, through EmbeddedKafkaCluster. This one gives them a broker in another process. What else the original
 * can do is left out: a test that asks for it fails to link, and says for what.
 */
public final class KafkaClusterTestKit implements AutoCloseable {
    private final ExternalCluster cluster;
    private final MockFaultHandler faults = new MockFaultHandler("external");

    private KafkaClusterTestKit(ExternalCluster cluster) {
        this.cluster = cluster;
    }

    public void format() { }

    public void startup() {
        cluster.start();
    }

    public void waitForReadyBrokers() throws InterruptedException {
        cluster.waitForReadyBrokers();
    }

    public String bootstrapServers() {
        return cluster.bootstrapServers();
    }

    public Map<Integer, KafkaBroker> brokers() {
        return cluster.brokers();
    }

    public MockFaultHandler nonFatalFaultHandler() {
        return faults;
    }

    @Override
    public void close() {
        cluster.stop();
    }

    /** Properties of all nodes, and of TestKitNodes those of one each. */
    public static final class Builder {
        private final TestKitNodes nodes;
        private final Map<String, String> properties = new HashMap<>();

        public Builder(TestKitNodes nodes) {
            this.nodes = nodes;
        }

        public Builder setConfigProp(String key, Object value) {
            properties.put(key, value.toString());
            return this;
        }

        public KafkaClusterTestKit build() {
            Map<Integer, Map<String, String>> own = new TreeMap<>();
            nodes.brokerNodes().forEach((id, node) -> {
                if (!node.propertyOverrides().isEmpty()) own.put(id, node.propertyOverrides());
            });
            return new KafkaClusterTestKit(new ExternalCluster(ClusterConfig.defaultBuilder()
                .setTypes(Set.of(Type.KRAFT))
                .setBrokers(nodes.brokerNodes().size())
                .setServerProperties(properties)
                .setPerServerProperties(own)
                .build(), false));
        }
    }
}
