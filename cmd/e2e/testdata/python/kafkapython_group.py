"""kafka-python 2.0.2 in a group: JoinGroup up to v2, OffsetCommit v2, eager.

usage: kafkapython_group.py host:port topic count STRATEGY
STRATEGY is range or roundrobin: its sticky one cannot encode what it means to send.
"""
import sys

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

import groupcheck

addr, topic, count, strategy = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
group = "group-" + topic
assignor = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}[strategy]


class Member(groupcheck.Member):
    def open(self):
        self.consumer = KafkaConsumer(
            topic, bootstrap_servers=addr, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest",
            partition_assignment_strategy=[assignor], heartbeat_interval_ms=300, session_timeout_ms=10000)

    def poll(self):
        batches = self.consumer.poll(100)
        return [(tp.partition, r.offset, int(r.value)) for tp, records in batches.items() for r in records]

    def commit(self):
        self.consumer.commit()

    def assignment(self):
        return [tp.partition for tp in self.consumer.assignment()]

    def close(self):
        self.consumer.close()


producer = KafkaProducer(bootstrap_servers=addr, acks="all", linger_ms=5, retries=10, max_in_flight_requests_per_connection=1)
admin = KafkaAdminClient(bootstrap_servers=addr)
admin.create_topics([NewTopic(topic, groupcheck.PARTITIONS, 1)])


def produce(start, stop):
    futures = [producer.send(topic, str(i).encode(), partition=i % groupcheck.PARTITIONS) for i in range(start, stop)]
    producer.flush(60)
    for f in futures:
        f.get(30)


def committed():
    return {tp.partition: o.offset for tp, o in admin.list_consumer_group_offsets(group).items() if tp.topic == topic}


groupcheck.run(Member, produce, committed, count)
described = admin.describe_consumer_groups([group])[0]
assert described.state == "Empty", described
assert (group, "consumer") in admin.list_consumer_groups(), admin.list_consumer_groups()
admin.delete_consumer_groups([group])
print("PASS")
