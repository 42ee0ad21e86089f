package table;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;

/** A broker for tests: `ottla dev` as a child, and its control API. */
final class Broker implements AutoCloseable {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final HttpClient http = HttpClient.newHttpClient();
    private final Process process;
    final String bootstrap;
    private final String control;

    Broker() throws Exception {
        String command = Optional.ofNullable(System.getenv("OTTLA")).orElse("ottla");
        process = new ProcessBuilder(command, "dev", "--listener", "127.0.0.1:0", "--admin", "127.0.0.1:0")
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        BufferedReader output = process.inputReader();
        bootstrap = after(output, "ready ");
        control = after(output, "control ").split(" ")[0];
    }

    private static String after(BufferedReader output, String start) throws Exception {
        for (String line = output.readLine(); line != null; line = output.readLine()) {
            if (line.startsWith(start)) {
                return line.substring(start.length()).strip();
            }
        }
        throw new IllegalStateException("ottla dev did not start");
    }

    @Override
    public void close() throws Exception {
        process.destroy();
        process.waitFor();
    }

    JsonNode get(String path) throws Exception {
        return call(HttpRequest.newBuilder(URI.create(control + path)).GET());
    }

    JsonNode post(String path, Map<String, Object> body) throws Exception {
        return call(HttpRequest.newBuilder(URI.create(control + path))
                .header("Content-Type", "application/json")
                .POST(BodyPublishers.ofString(JSON.writeValueAsString(body))));
    }

    private JsonNode call(HttpRequest.Builder request) throws Exception {
        var answer = http.send(request.build(), BodyHandlers.ofString());
        if (answer.statusCode() >= 300) {
            throw new AssertionError(answer.uri() + ": " + answer.statusCode() + " " + answer.body());
        }
        return JSON.readTree(answer.body());
    }

    void createTopic(String name, Map<String, String> configs) throws Exception {
        try (var admin = admin()) {
            admin.createTopics(List.of(new NewTopic(name, 1, (short) 1).configs(configs)))
                    .all()
                    .get();
        }
    }

    Set<String> topics() throws Exception {
        try (var admin = admin()) {
            return admin.listTopics().names().get();
        }
    }

    private Admin admin() {
        return Admin.create(Map.of("bootstrap.servers", bootstrap));
    }
}
