package org.apache.kafka.common.test.junit;

import external.ExternalCluster;
import external.Results;
import java.util.List;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;

/**
 * Stands in front of the class of the same name in kafka-test-common-runtime: Kafka's JUnit extension asks for
 * one of these per test and cluster configuration. This one gives the test a broker in another process.
 */
public class RaftClusterInvocationContext implements TestTemplateInvocationContext {
    private final String baseName;
    private final ClusterConfig config;
    private final boolean combined;

    public RaftClusterInvocationContext(String baseName, ClusterConfig config, boolean combined) {
        this.baseName = baseName;
        this.config = config;
        this.combined = combined;
    }

    @Override
    public String getDisplayName(int index) {
        return baseName + " [" + index + "] " + ExternalCluster.label(config, combined);
    }

    @Override
    public List<Extension> getAdditionalExtensions() {
        ExternalCluster cluster = new ExternalCluster(config, combined);
        ExecutionCondition once = context -> isTwin()
            ? ConditionEvaluationResult.disabled("twin: combined and isolated are the same external process")
            : Results.isWanted(Results.id(context, config, combined))
            ? ConditionEvaluationResult.enabled("") : ConditionEvaluationResult.disabled("not asked for");
        BeforeEachCallback prepare = context -> {
            String id = Results.id(context, config, combined);
            Results.begun(id);
            cluster.name(id);
            if (config.isAutoStart()) cluster.start();
        };
        AfterTestExecutionCallback afterTest = context -> cluster.stop();
        AfterEachCallback afterEach = context -> cluster.stop(); // reached when a @BeforeEach of the test failed
        return List.of(once, prepare, afterTest, afterEach,
            new ClusterInstanceParameterResolver(cluster), new Results(cluster, config, combined));
    }

    /** Where Kafka would run a test once per KRaft layout, one run says all about an external broker. */
    private boolean isTwin() {
        return combined && config.clusterTypes().contains(Type.KRAFT);
    }
}
