import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.StoreQueryParameters;

/**
 * A word count at least once: lines are split into words, which go through a
 * repartition topic into a RocksDB store with a changelog, and each new count
 * into the topic of counts.
 *
 * usage: WordCount host:port application lines counts state-directory
 *
 * It prints RUNNING, and on each line of stdin that is a word, the count that
 * its own store holds ("WORD=N", N is - when another instance owns it). The end
 * of stdin closes it.
 */
public class WordCount {
    public static void main(String[] args) throws Exception {
        Properties config = new Properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        config.put(StreamsConfig.STATE_DIR_CONFIG, args[4]);
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.AT_LEAST_ONCE);
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 200);
        config.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put("auto.offset.reset", "earliest");
        config.put("session.timeout.ms", "10000");
        config.put("heartbeat.interval.ms", "500");

        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(args[2])
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.as("words"))
            .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts"))
            .toStream()
            .to(args[3], Produced.with(Serdes.String(), Serdes.Long()));

        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        CountDownLatch running = new CountDownLatch(1);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                running.countDown();
            }
            if (now == KafkaStreams.State.ERROR) {
                System.out.println("ERROR");
                Runtime.getRuntime().halt(1);
            }
        });
        streams.start();
        running.await();
        System.out.println("RUNNING");

        java.io.BufferedReader in = new java.io.BufferedReader(new java.io.InputStreamReader(System.in));
        for (String word; (word = in.readLine()) != null; ) {
            System.out.println(word + "=" + count(streams, word));
        }
        streams.close();
        System.out.println("CLOSED");
    }

    private static String count(KafkaStreams streams, String word) throws InterruptedException {
        for (int i = 0; i < 200; i++) {
            try {
                Long n = streams.store(StoreQueryParameters.fromNameAndType("counts", QueryableStoreTypes.<String, Long>keyValueStore())).get(word);
                return n == null ? "-" : n.toString();
            } catch (org.apache.kafka.streams.errors.InvalidStateStoreException e) {
                Thread.sleep(100); // a rebalance is under way
            }
        }
        return "no store";
    }
}
