// Command sarama produces and reads as an old Go client does: IBM/sarama
// v1.40.1, whose default version is V1_0_0 and which never asks for
// ApiVersions. It sends Produce v3, Fetch v4 to v6, Metadata v5 whatever the
// broker offers.
//
//	sarama host:port topic count
package main

import (
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/IBM/sarama"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 4 {
		log.Fatal("usage: sarama host:port topic count")
	}
	count, err := strconv.Atoi(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	if err := run(os.Args[1], os.Args[2], count); err != nil {
		log.Fatal(err)
	}
	fmt.Println("PASS")
}

func run(addr, topic string, count int) error {
	config := sarama.NewConfig()
	config.Version = sarama.V1_0_0_0
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = sarama.NewManualPartitioner
	admin, err := sarama.NewClusterAdmin([]string{addr}, config)
	if err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	defer admin.Close()
	if err := admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 1}, false); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if err := waitServed(addr, topic, config); err != nil {
		return err
	}
	codecs := []sarama.CompressionCodec{sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4}
	for i, codec := range codecs {
		config.Producer.Compression = codec
		if err := produce(addr, topic, config, i*count, (i+1)*count); err != nil {
			return fmt.Errorf("produce with %v: %w", codec, err)
		}
	}
	if err := consume(addr, topic, config, len(codecs)*count); err != nil {
		return err
	}
	if err := admin.DeleteTopic(topic); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	return nil
}

// waitServed waits until both partitions answer. This version of sarama
// reorders what it sends again after an error (a batch that already waits
// behind the failed one overtakes it, even with one request in flight), and a
// broker may refuse the first records of a topic created a moment ago.
func waitServed(addr, topic string, config *sarama.Config) error {
	client, err := sarama.NewClient([]string{addr}, config)
	if err != nil {
		return err
	}
	defer client.Close()
	for partition := range int32(2) {
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			_, err := client.GetOffset(topic, partition, sarama.OffsetNewest)
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("partition %d is not served: %w", partition, err)
			}
		}
	}
	return nil
}

func value(i int) string { return fmt.Sprintf("value %d of sarama", i) }

// produce sends the values from..to, even ones to partition 0 and odd ones to 1.
func produce(addr, topic string, config *sarama.Config, from, to int) error {
	client, err := sarama.NewClient([]string{addr}, config)
	if err != nil {
		return err
	}
	defer client.Close()
	// A producer that sends while its connection is still being opened ("broker not
	// connected") sends again as waitServed says.
	if err := connect(client, topic); err != nil {
		return err
	}
	producer, err := sarama.NewAsyncProducerFromClient(client)
	if err != nil {
		return err
	}
	go func() {
		for i := from; i < to; i++ {
			producer.Input() <- &sarama.ProducerMessage{
				Topic: topic, Partition: int32(i % 2), Key: sarama.StringEncoder(strconv.Itoa(i)), Value: sarama.StringEncoder(value(i)),
				Headers: []sarama.RecordHeader{{Key: []byte("n"), Value: []byte(strconv.Itoa(i))}},
			}
		}
		producer.AsyncClose()
	}()
	for acked := 0; ; {
		select {
		case _, more := <-producer.Successes():
			if more {
				acked++
				continue
			}
			if acked != to-from {
				return fmt.Errorf("%d of %d acknowledged", acked, to-from)
			}
			return nil
		case err := <-producer.Errors():
			if err != nil {
				return err
			}
		}
	}
}

// connect waits until the connection to the leader of both partitions is open.
func connect(client sarama.Client, topic string) error {
	for partition := range int32(2) {
		leader, err := client.Leader(topic, partition)
		if err != nil {
			return err
		}
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			open, err := leader.Connected()
			if err != nil {
				return err
			}
			if open {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("the leader of partition %d is not connected", partition)
			}
		}
	}
	return nil
}

// consume reads both partitions from the start and checks values, keys,
// headers, offsets and order.
func consume(addr, topic string, config *sarama.Config, count int) error {
	consumer, err := sarama.NewConsumer([]string{addr}, config)
	if err != nil {
		return err
	}
	defer consumer.Close()
	for partition := range 2 {
		pc, err := consumer.ConsumePartition(topic, int32(partition), sarama.OffsetOldest)
		if err != nil {
			return err
		}
		for offset := range count / 2 {
			i := 2*offset + partition
			select {
			case m := <-pc.Messages():
				if m.Offset != int64(offset) || string(m.Value) != value(i) || string(m.Key) != strconv.Itoa(i) ||
					len(m.Headers) != 1 || string(m.Headers[0].Value) != strconv.Itoa(i) {
					return fmt.Errorf("partition %d: want %d at offset %d, got %+v", partition, i, offset, m)
				}
			case <-time.After(30 * time.Second):
				return fmt.Errorf("partition %d: nothing at offset %d for 30 s", partition, offset)
			}
		}
		if err := pc.Close(); err != nil {
			return err
		}
	}
	return nil
}
