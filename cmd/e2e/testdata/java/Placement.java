import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Produces with the Java client's own choice of partition and prints where each
 * record went.
 *
 * usage: Placement host:port topic partitions count
 *
 * One line a record, "KIND INDEX PARTITION OFFSET": explicit (index modulo
 * partitions), key (hash of "key-INDEX"), sticky (no key) and robin
 * (RoundRobinPartitioner). The value of each is "KIND INDEX".
 */
public class Placement {
    public static void main(String[] args) throws Exception {
        int partitions = Integer.parseInt(args[2]);
        int count = Integer.parseInt(args[3]);
        String robin = "org.apache.kafka.clients.producer.RoundRobinPartitioner";
        produce(args[0], args[1], "explicit", count, null, i -> i % partitions, i -> "key-" + i);
        produce(args[0], args[1], "key", count, null, i -> null, i -> "key-" + i);
        produce(args[0], args[1], "sticky", count, null, i -> null, i -> null);
        produce(args[0], args[1], "robin", count, robin, i -> null, i -> null);
    }

    private interface Choice<T> {
        T of(int index);
    }

    private static void produce(String addr, String topic, String kind, int count, String partitioner,
                                Choice<Integer> partition, Choice<String> key) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", addr);
        config.put("key.serializer", StringSerializer.class.getName());
        config.put("value.serializer", StringSerializer.class.getName());
        // Small batches, so that the sticky partitioner moves on.
        config.put("batch.size", "512");
        if (partitioner != null) {
            config.put("partitioner.class", partitioner);
        }
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(config)) {
            for (int i = 0; i < count; i++) {
                sent.add(producer.send(new ProducerRecord<>(topic, partition.of(i), key.of(i), kind + " " + i)));
            }
        }
        for (int i = 0; i < count; i++) {
            RecordMetadata m = sent.get(i).get();
            System.out.println(kind + " " + i + " " + m.partition() + " " + m.offset());
        }
    }
}
