import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;

/** Words counted, and orders joined with customers, by an instance that can be killed. Arguments: brokers, application, directory. */
public class Application {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("application.id", arguments[1]);
        settings.put("state.dir", arguments[2]);
        settings.put("group.protocol", "streams");
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("num.stream.threads", "2");
        settings.put("commit.interval.ms", "100");
        settings.put("statestore.cache.max.bytes", "0");
        settings.put("default.key.serde", Serdes.String().getClass());
        settings.put("default.value.serde", Serdes.String().getClass());
        settings.put("consumer.auto.offset.reset", "earliest");
        settings.put("consumer.fetch.max.wait.ms", "100");
        // Of internal topics, which the group coordinator creates with them: so that their logs are cleaned meanwhile.
        settings.put("topic.segment.ms", "1000");
        settings.put("topic.min.cleanable.dirty.ratio", "0.01");

        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream("text")
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word)
            .count(Materialized.as("counts"))
            .toStream()
            .mapValues(String::valueOf)
            .to("counted");
        KTable<String, String> customers = builder.table("customers");
        builder.<String, String>stream("orders").join(customers, (order, customer) -> order + "@" + customer).to("joined");

        KafkaStreams streams = new KafkaStreams(builder.build(settings), settings);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.setStateListener((now, before) -> System.out.println("state " + now));
        streams.start();
        while (System.in.read() >= 0) { }
        streams.close();
    }
}
