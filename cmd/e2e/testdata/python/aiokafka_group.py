"""aiokafka in a group, each member on an event loop of its own.

usage: aiokafka_group.py host:port topic count STRATEGY
STRATEGY is range, roundrobin or sticky.
"""
import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

import groupcheck

addr, topic, count, strategy = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
group = "group-" + topic
assignor = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor, "sticky": StickyPartitionAssignor}[strategy]


class Member(groupcheck.Member):
    def open(self):
        self.loop = asyncio.new_event_loop()
        self.loop.run_until_complete(self.begin())

    async def begin(self):
        self.consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=addr, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest",
            partition_assignment_strategy=[assignor], heartbeat_interval_ms=300, session_timeout_ms=10000)
        await self.consumer.start()

    def poll(self):
        batches = self.loop.run_until_complete(self.consumer.getmany(timeout_ms=100))
        return [(tp.partition, r.offset, int(r.value)) for tp, records in batches.items() for r in records]

    def commit(self):
        self.loop.run_until_complete(self.consumer.commit())

    def assignment(self):
        return [tp.partition for tp in self.consumer.assignment()]

    def close(self):
        self.loop.run_until_complete(self.consumer.stop())


async def send(start, stop):
    producer = AIOKafkaProducer(bootstrap_servers=addr, enable_idempotence=True, linger_ms=5)
    await producer.start()
    futures = [await producer.send(topic, str(i).encode(), partition=i % groupcheck.PARTITIONS) for i in range(start, stop)]
    await asyncio.gather(*futures)
    await producer.stop()


async def administer(call):
    admin = AIOKafkaAdminClient(bootstrap_servers=addr)
    await admin.start()
    try:
        return await call(admin)
    finally:
        await admin.close()


def committed():
    offsets = asyncio.run(administer(lambda admin: admin.list_consumer_group_offsets(group)))
    return {tp.partition: o.offset for tp, o in offsets.items() if tp.topic == topic}


asyncio.run(administer(lambda admin: admin.create_topics([NewTopic(topic, groupcheck.PARTITIONS, 1)])))
groupcheck.run(Member, lambda start, stop: asyncio.run(send(start, stop)), committed, count)
print("PASS")
