"""kafka-python 2.0.2, an old client: probes ApiVersions v0, Produce up to v7, Fetch v4.

usage: kafkapython.py host:port topic count
"""
import sys
import time

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewPartitions, NewTopic

addr, topic, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
# zstd needs an own package; 2.0.2 would send it as Produce v7.
CODECS = [None, "gzip", "snappy", "lz4", "zstd"]


def value(i):
    return ("value %d of kafka-python " % i + "x" * (i % 100)).encode()


def produce(codec, acks, start, stop):
    producer = KafkaProducer(bootstrap_servers=addr, acks=acks, compression_type=codec, linger_ms=5)
    futures = [
        producer.send(topic, value(i), key=str(i).encode(), partition=i % 3, headers=[("n", str(i).encode())])
        for i in range(start, stop)
    ]
    producer.flush(60)
    for f in futures:
        f.get(30)
    producer.close()


def consume(total):
    consumer = KafkaConsumer(bootstrap_servers=addr, group_id=None, enable_auto_commit=False)
    partitions = [TopicPartition(topic, p) for p in range(3)]
    consumer.assign(partitions)
    consumer.seek_to_beginning()
    expected = [0, 0, 0]
    seen, deadline = 0, time.time() + 120
    while seen < total:
        assert time.time() < deadline, "only %d of %d records in time" % (seen, total)
        for tp, records in consumer.poll(1000).items():
            for r in records:
                i = 3 * expected[tp.partition] + tp.partition
                assert r.offset == expected[tp.partition], (tp, r.offset)
                assert r.value == value(i) and r.key == str(i).encode(), (tp, r)
                assert r.headers == [("n", str(i).encode())], r.headers
                expected[tp.partition] += 1
                seen += 1
    assert consumer.end_offsets(partitions) == {tp: expected[tp.partition] for tp in partitions}
    assert consumer.beginning_offsets(partitions) == {tp: 0 for tp in partitions}
    first = consumer.offsets_for_times({tp: 1 for tp in partitions})
    assert all(o.offset == 0 for o in first.values()), first
    consumer.close()


admin = KafkaAdminClient(bootstrap_servers=addr)
admin.create_topics([NewTopic(topic, 2, 1)])
admin.create_partitions({topic: NewPartitions(3)})
assert topic in admin.list_topics()
count -= count % 3
for n, codec in enumerate(CODECS):
    produce(codec, "all" if n % 2 == 0 else 1, n * count, (n + 1) * count)
consume(len(CODECS) * count)
admin.delete_topics([topic])
print("PASS")
