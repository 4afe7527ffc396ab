"""confluent-kafka (current librdkafka) in a group.

usage: confluent_group.py host:port topic count PROTOCOL
PROTOCOL is a classic strategy (range, roundrobin, cooperative-sticky) or
consumer-ASSIGNOR for KIP-848 with a server-side assignor.
"""
import sys
import time

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import groupcheck

addr, topic, count, protocol = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
group = "group-" + topic


def group_config():
    common = {"bootstrap.servers": addr, "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    if protocol.startswith("consumer-"):
        return dict(common, **{"group.protocol": "consumer", "group.remote.assignor": protocol[len("consumer-"):]})
    return dict(common, **{"partition.assignment.strategy": protocol, "heartbeat.interval.ms": 300, "session.timeout.ms": 10000})


class Member(groupcheck.Member):
    def open(self):
        self.consumer = Consumer(group_config())
        self.consumer.subscribe([topic])

    def poll(self):
        messages = self.consumer.consume(500, 0.1)
        for m in messages:
            assert m.error() is None, m.error()
        return [(m.partition(), m.offset(), int(m.value())) for m in messages]

    def commit(self):
        # A commit may be refused while the member's epoch moves (KIP-848) and
        # is good a moment later.
        for attempt in range(20):
            try:
                for tp in self.consumer.commit(asynchronous=False):
                    assert tp.error is None, tp.error
                return
            except KafkaException as e:
                if not (protocol.startswith("consumer-") and e.args[0].name() in ("STALE_MEMBER_EPOCH", "_NO_OFFSET")) or attempt == 19:
                    raise
                time.sleep(0.1)

    def assignment(self):
        return [tp.partition for tp in self.consumer.assignment()]

    def close(self):
        self.consumer.close()


producer = Producer({"bootstrap.servers": addr, "enable.idempotence": True, "linger.ms": 5})
admin = AdminClient({"bootstrap.servers": addr})
for f in admin.create_topics([NewTopic(topic, groupcheck.PARTITIONS, 1)]).values():
    f.result(30)


def produce(start, stop):
    for i in range(start, stop):
        producer.produce(topic, str(i), partition=i % groupcheck.PARTITIONS)
    assert producer.flush(60) == 0


def committed():
    partitions = [TopicPartition(topic, p) for p in range(groupcheck.PARTITIONS)]
    found = list(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group, partitions)]).values())[0].result(30)
    return {tp.partition: tp.offset for tp in found.topic_partitions}


groupcheck.run(Member, produce, committed, count)
described = list(admin.describe_consumer_groups([group]).values())[0].result(30)
assert described.state.name == "EMPTY", described.state
listed = admin.list_consumer_groups().result(30)
assert group in [g.group_id for g in listed.valid], listed.valid
for f in admin.delete_consumer_groups([group]).values():
    f.result(30)
print("PASS")
