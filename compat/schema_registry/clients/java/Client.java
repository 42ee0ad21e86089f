// Calls of Confluent's client for Java, each line `CALL<tab>ok` or `CALL<tab>FAIL reason`: Client.java URL
// Maven Central has it in a jar of Flink, under names of its own.

import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.avro.AvroSchema;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.SchemaMetadata;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.entities.SchemaReference;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException;
import org.apache.flink.avro.shaded.org.apache.avro.Schema;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericData;
import org.apache.flink.formats.avro.registry.confluent.ConfluentRegistryAvroDeserializationSchema;
import org.apache.flink.formats.avro.registry.confluent.ConfluentRegistryAvroSerializationSchema;

public class Client {
    static final String ONE = "{\"type\":\"record\",\"name\":\"R\",\"fields\":[{\"name\":\"x\",\"type\":\"int\"}]}";
    static final String TWO = ONE.replace("]}", ",{\"name\":\"y\",\"type\":\"int\",\"default\":0}]}");
    static final String NEEDY = ONE.replace("]}", ",{\"name\":\"z\",\"type\":\"int\"}]}");
    static final String USES = "{\"type\":\"record\",\"name\":\"U\",\"fields\":[{\"name\":\"r\",\"type\":\"R\"}]}";

    interface Work {
        void run() throws Exception;
    }

    static void call(String name, Work work) {
        try {
            work.run();
            System.out.println(name + "\tok");
        } catch (Exception | AssertionError error) {
            System.out.println(name + "\tFAIL " + error);
        }
    }

    static void want(Object found, Object expected) {
        if (!Objects.equals(found, expected)) throw new AssertionError("expected " + expected + ", found " + found);
    }

    static void refused(int status, int code, Work work) throws Exception {
        try {
            work.run();
        } catch (RestClientException error) {
            want(List.of(error.getStatus(), error.getErrorCode()), List.of(status, code));
            return;
        }
        throw new AssertionError("expected an error " + code);
    }

    public static void main(String[] words) throws Exception {
        var client = new CachedSchemaRegistryClient(words[0], 100);
        var other = new CachedSchemaRegistryClient(words[0], 100); // with a cache of its own
        var one = new AvroSchema(ONE);
        var two = new AvroSchema(TWO);
        int[] id = new int[1];
        call("register", () -> {
            id[0] = client.register("j-value", one);
            client.register("j-value", two);
            want(other.register("j-value", one), id[0]);
        });
        call("write and read Avro, by Flink", () -> {
            Schema schema = new Schema.Parser().parse(ONE), newer = new Schema.Parser().parse(TWO);
            var record = new GenericData.Record(schema);
            record.put("x", 3);
            byte[] data = ConfluentRegistryAvroSerializationSchema.forGeneric("f-value", schema, words[0]).serialize(record);
            want(data.length, 6);
            want(other.getAllVersions("f-value"), List.of(1));
            var read = ConfluentRegistryAvroDeserializationSchema.forGeneric(newer, words[0]).deserialize(data);
            want(List.of(read.get("x"), read.get("y")), List.of(3, 0));
        });
        call("register, normalized", () -> want(other.register("j-value", new AvroSchema(" " + ONE + " "), true), id[0]));
        call("id and version of a schema", () -> {
            want(other.getId("j-value", one), id[0]);
            want(other.getVersion("j-value", two), 2);
            refused(404, 40403, () -> other.getId("j-value", new AvroSchema(NEEDY)));
            refused(404, 40401, () -> other.getId("nothing", one));
        });
        call("schema by id", () -> {
            want(other.getSchemaById(id[0]).canonicalString(), ONE);
            want(other.getSchemaBySubjectAndId("j-value", id[0]).canonicalString(), ONE);
            refused(404, 40403, () -> other.getSchemaById(999_999));
        });
        call("schema by version", () -> {
            SchemaMetadata latest = other.getLatestSchemaMetadata("j-value");
            want(List.of(latest.getVersion(), latest.getSchema()), List.of(2, TWO));
            want(other.getSchemaMetadata("j-value", 1).getId(), id[0]);
            refused(404, 40402, () -> other.getSchemaMetadata("j-value", 7));
        });
        call("references", () -> {
            client.register("r", one);
            var reference = List.of(new SchemaReference("R", "r", 1));
            int made = client.register("u", new AvroSchema(USES, reference, Map.of("R", ONE), null));
            var found = (AvroSchema) other.getSchemaById(made);
            want(found.references(), reference);
            want(found.rawSchema().getField("r").schema().getField("x").schema().getType().getName(), "int");
            refused(422, 42206, () -> client.deleteSchemaVersion("r", "1"));
        });
        call("subjects and versions", () -> {
            want(other.getAllSubjects().containsAll(List.of("j-value", "r", "u")), true);
            want(other.getAllSubjectsByPrefix("j-"), List.of("j-value"));
            want(other.getAllVersions("j-value"), List.of(1, 2));
            want(List.copyOf(other.getAllSubjectsById(id[0])).contains("j-value"), true);
            want(other.getAllVersionsById(id[0]).iterator().next().getVersion(), 1);
        });
        call("compatibility", () -> {
            want(client.testCompatibility("j-value", two), true);
            want(client.testCompatibility("j-value", new AvroSchema(NEEDY)), false);
            want(client.testCompatibilityVerbose("j-value", new AvroSchema(NEEDY)).isEmpty(), false);
            refused(409, 409, () -> client.register("j-value", new AvroSchema(NEEDY)));
            refused(422, 42201, () -> client.register("j-value", new AvroSchema("{\"type\":\"record\",\"name\":\"R\",\"fields\":[]}") {
                @Override
                public String canonicalString() {
                    return "{";
                }
            }));
        });
        call("levels", () -> {
            want(client.getCompatibility(null), "BACKWARD");
            want(client.updateCompatibility("j-value", "FULL"), "FULL");
            want(client.getCompatibility("j-value"), "FULL");
            refused(404, 40408, () -> client.getCompatibility("r"));
            client.deleteCompatibility("j-value");
        });
        call("modes", () -> {
            want(client.setMode("READONLY", "r"), "READONLY");
            want(client.getMode("r"), "READONLY");
            refused(422, 42205, () -> client.register("r", two));
            client.deleteMode("r");
            want(client.getMode(), "READWRITE");
        });
        call("deletions", () -> {
            want(client.deleteSchemaVersion("j-value", "1"), 1);
            want(other.getAllVersions("j-value"), List.of(2));
            want(client.deleteSubject("j-value"), List.of(2));
            want(client.deleteSubject("j-value", true), List.of(1, 2));
            refused(404, 40401, () -> other.getAllVersions("j-value"));
        });
    }
}
