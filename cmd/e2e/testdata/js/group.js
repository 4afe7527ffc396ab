// kafkajs 2.x in a group: JoinGroup up to v5, its own round-robin assigner.
//
// usage: node group.js host:port topic count
//
// As testdata/python/groupcheck.py: members join one by one and one leaves
// while records are produced; each record arrives exactly once and in order.
const { Kafka, logLevel } = require('kafkajs')

const [addr, topic, countText] = process.argv.slice(2)
const count = Number(countText)
const partitions = 6
const stepLimit = 60000 // ms that any one step may take
const groupId = 'group-' + topic
const kafka = new Kafka({ clientId: 'posthouse-e2e', brokers: [addr], logLevel: logLevel.NOTHING, retry: { retries: 10 } })

const read = Array.from({ length: partitions }, () => [])
let failure = null
const total = () => read.reduce((n, values) => n + values.length, 0)

async function until(what, condition) {
  for (const deadline = Date.now() + stepLimit; !(await condition()); ) {
    if (failure) throw failure
    if (Date.now() > deadline) throw new Error(`no ${what} within ${stepLimit} ms`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  if (failure) throw failure
}

async function member(name) {
  const consumer = kafka.consumer({ groupId, heartbeatInterval: 300, sessionTimeout: 10000, rebalanceTimeout: 20000, maxWaitTimeInMs: 200 })
  const self = { name, owned: [], leave: () => consumer.disconnect() }
  consumer.on(consumer.events.GROUP_JOIN, (e) => { self.owned = e.payload.memberAssignment[topic] || [] })
  consumer.on(consumer.events.REBALANCING, () => { self.owned = [] })
  consumer.on(consumer.events.CRASH, (e) => { failure = failure || e.payload.error })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch, resolveOffset, heartbeat, isStale, isRunning }) => {
      if (isStale() || !isRunning()) return
      for (const message of batch.messages) {
        const values = read[batch.partition]
        if (Number(message.offset) !== values.length) {
          failure = failure || new Error(`${name} read offset ${message.offset} of partition ${batch.partition}, the group was at ${values.length}`)
          return
        }
        values.push(Number(message.value.toString()))
        resolveOffset(message.offset)
      }
      await consumer.commitOffsets([{ topic, partition: batch.partition, offset: String(Number(batch.lastOffset()) + 1) }])
      await heartbeat()
    },
  })
  return self
}

async function balanced(...members) {
  await until(`balance of ${members.length} members`, () => {
    const sizes = members.map((m) => m.owned.length)
    const all = new Set(members.flatMap((m) => m.owned))
    return sizes.reduce((a, b) => a + b) === partitions && all.size === partitions && Math.max(...sizes) - Math.min(...sizes) <= 1
  })
}

async function main() {
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic, numPartitions: partitions, replicationFactor: 1 }], waitForLeaders: true })
  const producer = kafka.producer({ idempotent: true })
  await producer.connect()
  async function produce(start, stop) {
    for (let from = start; from < stop; from += 500) {
      const messages = []
      for (let i = from; i < Math.min(from + 500, stop); i++) messages.push({ value: String(i), partition: i % partitions })
      await producer.send({ topic, messages })
    }
    await until(`end of the topic (${total()} of ${stop})`, () => total() >= stop)
  }

  const a = await member('a')
  await balanced(a)
  await produce(0, count / 3)
  const b = await member('b')
  await balanced(a, b)
  const c = await member('c')
  await balanced(a, b, c)
  await produce(count / 3, (2 * count) / 3)
  await a.leave()
  await balanced(b, c)
  await produce((2 * count) / 3, count)
  await until('commit of all', async () => {
    const [{ partitions: found }] = await admin.fetchOffsets({ groupId, topics: [topic] })
    return found.every((p) => Number(p.offset) === read[p.partition].length)
  })
  await b.leave()
  await c.leave()
  const values = read.flat().sort((x, y) => x - y)
  if (values.length !== count || values.some((v, i) => v !== i)) throw new Error(`${values.length} values of ${count}, or not these`)
  const { groups: [described] } = await admin.describeGroups([groupId])
  if (described.state !== 'Empty') throw new Error(`the group is ${described.state}`)
  await admin.deleteGroups([groupId])
  await producer.disconnect()
  await admin.disconnect()
  console.log('PASS')
}

main().catch((e) => {
  console.error(e)
  process.exit(1)
})
