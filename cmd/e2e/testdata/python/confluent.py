"""confluent-kafka (current librdkafka): idempotent producer and direct consumer.

usage: confluent.py host:port topic count
"""
import sys
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

addr, topic, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def admin_calls():
    admin = AdminClient({"bootstrap.servers": addr})
    for f in admin.create_topics([NewTopic(topic, 2, 1, config={"retention.ms": "3600000"})]).values():
        f.result(30)
    for f in admin.create_partitions([NewPartitions(topic, 3)]).values():
        f.result(30)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    for f in admin.describe_configs([resource]).values():
        assert f.result(30)["retention.ms"].value == "3600000"
    metadata = admin.list_topics(topic, timeout=30)
    assert len(metadata.topics[topic].partitions) == 3, metadata.topics[topic].partitions
    cluster = admin.describe_cluster().result(30)
    assert len(cluster.nodes) == 1, cluster.nodes
    return admin


def produce(codec, start, stop):
    failed = []
    acked = [0]

    def delivered(err, msg):
        if err is not None:
            failed.append(err)
        acked[0] += 1

    producer = Producer({
        "bootstrap.servers": addr, "enable.idempotence": True, "acks": "all",
        "compression.type": codec, "linger.ms": 5,
    })
    for i in range(start, stop):
        while True:
            try:
                producer.produce(topic, value(i), key=str(i), partition=i % 3, headers={"n": str(i)}, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(60) == 0, "flush timed out"
    assert not failed, failed[:3]
    assert acked[0] == stop - start, acked


def value(i):
    return ("value %d of librdkafka " % i + "x" * (i % 100)).encode()


def consume(total):
    consumer = Consumer({"bootstrap.servers": addr, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(3)])
    expected = [0, 0, 0]
    seen, deadline = 0, time.time() + 120
    while seen < total:
        assert time.time() < deadline, "only %d of %d records in time" % (seen, total)
        for m in consumer.consume(1000, 1.0):
            assert m.error() is None, m.error()
            p = m.partition()
            i = 3 * expected[p] + p
            assert m.offset() == expected[p], (p, m.offset(), expected[p])
            assert m.value() == value(i) and m.key() == str(i).encode(), (p, m.offset(), m.value())
            assert m.headers() == [("n", str(i).encode())], m.headers()
            expected[p] += 1
            seen += 1
    for p in range(3):
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=30)
        assert (low, high) == (0, expected[p]), (low, high, expected[p])
    consumer.close()


admin = admin_calls()
count -= count % 3
for n, codec in enumerate(CODECS):
    produce(codec, n * count, (n + 1) * count)
consume(len(CODECS) * count)
for f in admin.delete_topics([topic]).values():
    f.result(30)
print("PASS")
