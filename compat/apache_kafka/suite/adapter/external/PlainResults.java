package external;

import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.TestWatcher;

/**
 * Chooses tests and writes down how they ended, as Results does, for those that make their cluster themselves: Kafka Streams', and
 * of the tools those for its applications. JUnit finds it by its service file. A cluster serves a whole class, so its output is not kept for each test.
 */
public final class PlainResults implements ExecutionCondition, BeforeEachCallback, TestWatcher {
    private static final Pattern CLASSES = Pattern.compile(
        "org\\.apache\\.kafka\\.(streams\\.integration\\.|tools\\.streams\\.|tools\\.ResetIntegration).*");
    private static final Pattern INVOCATION = Pattern.compile("test-template-invocation:#(\\d+)");
    /** Runs its tests in another order each time: their numbers say nothing. */
    private static final String SHUFFLED = "org.apache.kafka.streams.integration.IQv2StoreIntegrationTest#";
    private static final ThreadLocal<Long> BEGUN_NS = ThreadLocal.withInitial(System::nanoTime);

    /** Class#method, and of a test that runs several times its number and what JUnit calls it, without what changes from run to run. */
    private static String id(ExtensionContext context) {
        String base = context.getRequiredTestClass().getName() + "#" + context.getRequiredTestMethod().getName();
        Matcher nth = INVOCATION.matcher(context.getUniqueId());
        if (!nth.find()) return base;
        String shown = context.getDisplayName().replaceAll("^\\[\\d+\\] *", "").replaceAll("\"?\\w+\\([^)]*\\)\\.", "")
            .replaceAll("@[0-9a-f]+", "").replaceAll("[\\s\\[\\]\"]+", " ").trim();
        if (base.startsWith(SHUFFLED)) return base + "[" + shown + "]";
        return base + "[" + nth.group(1) + (shown.isEmpty() ? "" : ", " + shown) + "]";
    }

    private static boolean isOurs(ExtensionContext context) {
        return context.getTestMethod().isPresent() && CLASSES.matcher(context.getRequiredTestClass().getName()).matches();
    }

    @Override
    public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
        boolean isTemplate = context.getUniqueId().contains("test-template:") && !INVOCATION.matcher(context.getUniqueId()).find();
        return !isOurs(context) || isTemplate || Results.isWanted(id(context))
            ? ConditionEvaluationResult.enabled("") : ConditionEvaluationResult.disabled("not asked for");
    }

    @Override
    public void beforeEach(ExtensionContext context) {
        if (!isOurs(context)) return;
        BEGUN_NS.set(System.nanoTime());
        Results.begun(id(context));
    }

    @Override
    public void testSuccessful(ExtensionContext context) {
        if (isOurs(context)) Results.write("PASS", id(context), seconds(), "");
    }

    @Override
    public void testFailed(ExtensionContext context, Throwable failure) {
        if (!isOurs(context)) return;
        boolean internals = ExternalBrokerError.isIn(failure);
        Results.write(internals ? "EXTERNAL" : "FAIL", id(context), seconds(), Results.cause(failure, internals));
    }

    @Override
    public void testAborted(ExtensionContext context, Throwable failure) {
        if (isOurs(context)) Results.write("ABORTED", id(context), seconds(), Results.cause(failure, false));
    }

    @Override
    public void testDisabled(ExtensionContext context, Optional<String> reason) {
        // Not asked for: not run, not counted.
    }

    private static double seconds() {
        return (System.nanoTime() - BEGUN_NS.get()) / 1e9;
    }
}
