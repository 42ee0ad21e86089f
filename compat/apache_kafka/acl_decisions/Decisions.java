import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/** Apache Kafka's StandardAuthorizer, told entries and asked for decisions, a line each of fields between tabs. */
public class Decisions {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        StandardAuthorizer authorizer = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] field = line.split("\t", -1);
            switch (field[0]) {
                case "new" -> {
                    authorizer = new StandardAuthorizer();
                    authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
                    authorizer.configure(Map.of("super.users", field[1], "allow.everyone.if.no.acl.found", field[2]));
                    authorizer.completeInitialLoad();
                }
                case "acl" -> authorizer.addAcl(Uuid.randomUuid(), new StandardAcl(
                    ResourceType.valueOf(field[1]), field[2], PatternType.valueOf(field[3]), field[4], field[5],
                    AclOperation.valueOf(field[6]), AclPermissionType.valueOf(field[7])));
                case "allows" -> {
                    ResourcePattern pattern =
                        new ResourcePattern(ResourceType.valueOf(field[4]), field[5], PatternType.LITERAL);
                    Action action = new Action(AclOperation.valueOf(field[3]), pattern, 1, false, false);
                    say(out, authorizer.authorize(context(field[1], field[2]), List.of(action)).get(0));
                }
                case "any" -> say(out, authorizer.authorizeByResourceType(
                    context(field[1], field[2]), AclOperation.valueOf(field[3]), ResourceType.valueOf(field[4])));
                default -> throw new IllegalArgumentException(line);
            }
        }
        out.flush();
    }

    private static void say(PrintStream out, AuthorizationResult result) {
        out.println(result == AuthorizationResult.ALLOWED ? "1" : "0");
    }

    private static AuthorizableRequestContext context(String principal, String host) throws Exception {
        InetAddress address = InetAddress.getByName(host);
        String[] parts = principal.split(":", 2);
        KafkaPrincipal who = new KafkaPrincipal(parts[0], parts[1]);
        return new AuthorizableRequestContext() {
            public String listenerName() {
                return "L";
            }

            public SecurityProtocol securityProtocol() {
                return SecurityProtocol.SASL_PLAINTEXT;
            }

            public KafkaPrincipal principal() {
                return who;
            }

            public InetAddress clientAddress() {
                return address;
            }

            public int requestType() {
                return 3;
            }

            public int requestVersion() {
                return 0;
            }

            public String clientId() {
                return "c";
            }

            public int correlationId() {
                return 0;
            }
        };
    }
}
