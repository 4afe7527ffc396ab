import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.FetchRequestData;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.ProduceRequestData;
import org.apache.kafka.common.message.ProduceResponseData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.record.internal.MemoryRecords;

/**
 * Prints Messages.json: Produce and Fetch bodies as Kafka's own classes write them,
 * with every field of each version set to a value of its own, and with every field
 * at its default. A lone broker never sends some of these (leader hints, snapshots).
 * The values are those of TestMessagesOfKafka in messages_test.go. To run it, with
 * the jars of org.apache.kafka:kafka-clients:4.4.0 at hand:
 *
 *   java -cp 'libs/*' Messages.java > Messages.json
 */
public class Messages {
    static final Uuid TOPIC = new Uuid(0x0102030405060708L, 0x090a0b0c0d0e0f10L);
    static final Uuid DIRECTORY = new Uuid(0x1112131415161718L, 0x191a1b1c1d1e1f20L);
    static final List<String> lines = new ArrayList<>();

    static MemoryRecords records() {
        return MemoryRecords.readableRecords(ByteBuffer.wrap("not really records".getBytes()));
    }

    static void add(String kind, String name, int version, ApiMessage message) {
        ByteBuffer body = MessageUtil.toByteBufferAccessor(message, (short) version).buffer();
        byte[] bytes = new byte[body.remaining()];
        body.get(bytes);
        lines.add(String.format("{\"kind\":\"%s\",\"name\":\"%s\",\"version\":%d,\"body\":\"%s\"}",
            kind, name, version, HexFormat.of().formatHex(bytes)));
    }

    static ProduceRequestData produceRequest(int v) {
        var topics = new ProduceRequestData.TopicProduceDataCollection();
        var topic = new ProduceRequestData.TopicProduceData().setName("topic").setPartitionData(List.of(
            new ProduceRequestData.PartitionProduceData().setIndex(3).setRecords(records()),
            new ProduceRequestData.PartitionProduceData().setIndex(4).setRecords(null)));
        topics.add(v >= 13 ? topic.setTopicId(TOPIC) : topic);
        return new ProduceRequestData().setTransactionalId("transaction").setAcks((short) -1).setTimeoutMs(1500).setTopicData(topics);
    }

    static ProduceResponseData produceResponse(int v) {
        var partition = new ProduceResponseData.PartitionProduceResponse().setIndex(3).setErrorCode((short) 6)
            .setBaseOffset(7).setLogAppendTimeMs(8).setLogStartOffset(9).setErrorMessage("message").setRecordErrors(List.of(
                new ProduceResponseData.BatchIndexAndErrorMessage().setBatchIndex(10).setBatchIndexErrorMessage("wrong"),
                new ProduceResponseData.BatchIndexAndErrorMessage().setBatchIndex(11)));
        var response = new ProduceResponseData().setThrottleTimeMs(12);
        if (v >= 10) {
            partition.setCurrentLeader(new ProduceResponseData.LeaderIdAndEpoch().setLeaderId(13).setLeaderEpoch(14));
            var nodes = new ProduceResponseData.NodeEndpointCollection();
            nodes.add(new ProduceResponseData.NodeEndpoint().setNodeId(13).setHost("host").setPort(9092).setRack("rack"));
            nodes.add(new ProduceResponseData.NodeEndpoint().setNodeId(15).setHost("another").setPort(9093));
            response.setNodeEndpoints(nodes);
        }
        var topics = new ProduceResponseData.TopicProduceResponseCollection();
        var topic = new ProduceResponseData.TopicProduceResponse().setName("topic").setPartitionResponses(List.of(partition));
        topics.add(v >= 13 ? topic.setTopicId(TOPIC) : topic);
        return response.setResponses(topics);
    }

    static FetchRequestData fetchRequest(int v) {
        var partition = new FetchRequestData.FetchPartition().setPartition(3).setCurrentLeaderEpoch(4).setFetchOffset(5)
            .setLogStartOffset(6).setPartitionMaxBytes(7).setReplicaDirectoryId(DIRECTORY).setHighWatermark(8);
        if (v >= 12) partition.setLastFetchedEpoch(9);
        var request = new FetchRequestData().setMaxWaitMs(10).setMinBytes(11).setMaxBytes(12).setIsolationLevel((byte) 1)
            .setSessionId(13).setSessionEpoch(14).setRackId("rack").setClusterId("cluster")
            .setTopics(List.of(new FetchRequestData.FetchTopic().setTopic("topic").setTopicId(TOPIC).setPartitions(List.of(partition))));
        if (v >= 7) request.setForgottenTopicsData(List.of(
            new FetchRequestData.ForgottenTopic().setTopic("topic").setTopicId(TOPIC).setPartitions(List.of(15, 16))));
        if (v >= 15) return request.setReplicaState(new FetchRequestData.ReplicaState().setReplicaId(17).setReplicaEpoch(18));
        return request.setReplicaId(17);
    }

    static FetchResponseData fetchResponse(int v) {
        var partition = new FetchResponseData.PartitionData().setPartitionIndex(3).setErrorCode((short) 6).setHighWatermark(7)
            .setLastStableOffset(8).setLogStartOffset(9).setRecords(records()).setAbortedTransactions(List.of(
                new FetchResponseData.AbortedTransaction().setProducerId(10).setFirstOffset(11)));
        if (v >= 11) partition.setPreferredReadReplica(12);
        if (v >= 12) partition
            .setDivergingEpoch(new FetchResponseData.EpochEndOffset().setEpoch(13).setEndOffset(14))
            .setCurrentLeader(new FetchResponseData.LeaderIdAndEpoch().setLeaderId(15).setLeaderEpoch(16))
            .setSnapshotId(new FetchResponseData.SnapshotId().setEndOffset(17).setEpoch(18));
        var empty = new FetchResponseData.PartitionData().setPartitionIndex(4).setAbortedTransactions(null).setRecords(null);
        var response = new FetchResponseData().setThrottleTimeMs(19).setErrorCode((short) 20).setResponses(List.of(
            new FetchResponseData.FetchableTopicResponse().setTopic("topic").setTopicId(TOPIC).setPartitions(List.of(partition, empty))));
        if (v >= 7) response.setSessionId(21);
        if (v >= 16) {
            var nodes = new FetchResponseData.NodeEndpointCollection();
            nodes.add(new FetchResponseData.NodeEndpoint().setNodeId(15).setHost("host").setPort(9092).setRack("rack"));
            response.setNodeEndpoints(nodes);
        }
        return response;
    }

    public static void main(String[] args) {
        for (int v = 3; v <= 13; v++) {
            add("ProduceRequest", "full", v, produceRequest(v));
            add("ProduceRequest", "default", v, new ProduceRequestData());
            add("ProduceResponse", "full", v, produceResponse(v));
            add("ProduceResponse", "default", v, new ProduceResponseData());
        }
        for (int v = 4; v <= 18; v++) {
            add("FetchRequest", "full", v, fetchRequest(v));
            add("FetchRequest", "default", v, new FetchRequestData());
            add("FetchResponse", "full", v, fetchResponse(v));
            add("FetchResponse", "default", v, new FetchResponseData());
        }
        System.out.println("[\n" + String.join(",\n", lines) + "\n]");
    }
}
