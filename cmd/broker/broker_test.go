package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestRestartKeepsData(t *testing.T) {
	onEachEngine(t, func(t *testing.T, engine string) {
		dir := t.TempDir()
		for round := range 3 {
			b := start(t, dir, "netio.engine="+engine)
			if name, _ := b.Engine(); name != engine {
				t.Fatalf("engine %s runs, want %s", name, engine)
			}
			consume(t, b, "kept", round*100)
			produce(t, b, "kept", round*100, round*100+100)
			consume(t, b, "kept", round*100+100)
			stop(t, b)
			if !exists(dir, cleanMark) {
				t.Fatal("no clean mark after a stop")
			}
		}
		// Without the mark the logs are checked, and nothing is missing either.
		if err := os.Remove(filepath.Join(dir, cleanMark)); err != nil {
			t.Fatal(err)
		}
		opts, log := options(t, dir, "netio.engine="+engine)
		b, err := Start(within(t, 30*time.Second), opts)
		if err != nil {
			t.Fatal(err)
		}
		await(t, b)
		consume(t, b, "kept", 300)
		if exists(dir, cleanMark) {
			t.Error("a node that runs has a clean mark")
		}
		if !strings.Contains(log.String(), "the last stop was not clean") {
			t.Error("the log does not tell that the stop was not clean")
		}
		stop(t, b)
		opts, log = options(t, dir, "netio.engine="+engine)
		if b, err = Start(within(t, 30*time.Second), opts); err != nil {
			t.Fatal(err)
		}
		await(t, b)
		stop(t, b)
		if strings.Contains(log.String(), "not clean") {
			t.Error("the log tells of an unclean stop after a clean one")
		}
	})
}

func TestCyclesLeakNothing(t *testing.T) {
	onEachEngine(t, func(t *testing.T, engine string) {
		dir := t.TempDir()
		var before holdings
		for cycle := range 5 {
			b := start(t, dir, "netio.engine="+engine, "netio.loops=2")
			produce(t, b, "leak", cycle*10, cycle*10+10)
			consume(t, b, "leak", cycle*10+10)
			stop(t, b)
			if cycle == 0 {
				// The first cycle opens what the process keeps: the resolver, the poller.
				time.Sleep(50 * time.Millisecond)
				before = held(t)
			}
		}
		wantHeld(t, before)
	})
}

// TestStopWithClients stops a node whose clients hold requests open.
func TestStopWithClients(t *testing.T) {
	onEachEngine(t, func(t *testing.T, engine string) {
		b := start(t, t.TempDir(), "netio.engine="+engine)
		produce(t, b, "busy", 0, 10)
		cl := client(t, b)
		defer cl.Close()
		req := kmsg.NewPtrFetchRequest()
		req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 60_000, 1<<20, 1<<20
		topic := kmsg.NewFetchRequestTopic()
		topic.Topic = "busy"
		meta, err := cl.Request(within(t, 10*time.Second), kmsg.NewPtrMetadataRequest())
		if err != nil {
			t.Fatal(err)
		}
		topic.TopicID = meta.(*kmsg.MetadataResponse).Topics[0].TopicID
		partition := kmsg.NewFetchRequestTopicPartition()
		partition.CurrentLeaderEpoch, partition.PartitionMaxBytes = -1, 1<<20
		topic.Partitions = append(topic.Partitions, partition)
		req.Topics = append(req.Topics, topic)
		answered := make(chan error, 1)
		go func() {
			_, err := cl.Broker(1).Request(context.Background(), req)
			answered <- err
		}()
		time.Sleep(100 * time.Millisecond)
		begun := time.Now()
		stop(t, b)
		if took := time.Since(begun); took > drainTimeout+time.Second {
			t.Errorf("the stop took %v with a fetch waiting", took)
		}
		cl.Close()
		select {
		case <-answered:
		case <-time.After(10 * time.Second):
			t.Error("the waiting fetch never ended")
		}
	})
}

// TestStopWhileLoading stops a node before its logs are open: nothing may be
// lost, and a directory that was not gone through may not pass for clean.
func TestStopWhileLoading(t *testing.T) {
	const partitions = 300
	dir := t.TempDir()
	b := start(t, dir, "num.partitions="+strconv.Itoa(partitions))
	cl := client(t, b)
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "wide", -1, -1
	req.Topics = append(req.Topics, topic)
	resp, err := cl.Request(within(t, 30*time.Second), req)
	if err != nil {
		t.Fatal(err)
	}
	if err := kerr.ErrorForCode(resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode); err != nil {
		t.Fatal(err)
	}
	cl.Close()
	produce(t, b, "wide", 0, 1000)
	stop(t, b)
	if err := os.Remove(filepath.Join(dir, cleanMark)); err != nil {
		t.Fatal(err)
	}

	for range 3 {
		opts, _ := options(t, dir, "num.recovery.threads.per.data.dir=1")
		marked := exists(dir, cleanMark)
		b, err := Start(within(t, 30*time.Second), opts)
		if err != nil {
			t.Fatal(err)
		}
		stop(t, b)
		if err := b.Err(); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		switch cut := b.Err() != nil; {
		case cut && !marked && exists(dir, cleanMark):
			t.Error("a directory whose recovery was cut short is marked clean")
		case !cut && !exists(dir, cleanMark):
			t.Error("no clean mark, though all logs were open")
		}
	}

	b = start(t, dir)
	defer stop(t, b)
	cl = client(t, b)
	defer cl.Close()
	if total := endOffsets(t, cl.Request, "wide", partitions); total != 1000 {
		t.Errorf("%d records are there, want 1000", total)
	}
}

// endOffsets adds up the end offsets of a topic.
func endOffsets(t *testing.T, request func(context.Context, kmsg.Request) (kmsg.Response, error), name string, partitions int32) (total int64) {
	t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = name
	for i := range partitions {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch, p.Timestamp = i, -1, -1
		topic.Partitions = append(topic.Partitions, p)
	}
	req.Topics = append(req.Topics, topic)
	resp, err := request(within(t, 30*time.Second), req)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions {
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			t.Fatalf("%s-%d: %v", name, p.Partition, err)
		}
		total += p.Offset
	}
	return total
}

// TestSeveralListeners binds IPv4 and IPv6 at ports of the system's choice and
// tells clients of each the address they came by.
func TestSeveralListeners(t *testing.T) {
	b := start(t, t.TempDir(), "listeners=V4://127.0.0.1:0,V6://[::1]:0",
		"listener.security.protocol.map=V4:PLAINTEXT,V6:PLAINTEXT")
	defer stop(t, b)
	addresses := strings.Split(b.Listeners(), ",")
	if len(addresses) != 2 || !strings.HasPrefix(addresses[0], "V4://127.0.0.1:") || !strings.HasPrefix(addresses[1], "V6://[::1]:") {
		t.Fatalf("listeners %s", b.Listeners())
	}
	for _, a := range addresses {
		_, address, _ := strings.Cut(a, "://")
		host, port, err := net.SplitHostPort(address)
		if err != nil || port == "0" {
			t.Fatalf("%s: %v", a, err)
		}
		cl := clientAt(t, address)
		resp, err := cl.Request(within(t, 10*time.Second), kmsg.NewPtrMetadataRequest())
		cl.Close()
		if err != nil {
			t.Fatal(err)
		}
		brokers := resp.(*kmsg.MetadataResponse).Brokers
		if len(brokers) != 1 || brokers[0].Host != host || strconv.Itoa(int(brokers[0].Port)) != port {
			t.Errorf("a client at %s is told of %+v", address, brokers)
		}
	}
}

// TestDynamicConfigsOfTheLastRun sets a limit of connections at run time: after
// a restart it holds from the first connection on.
func TestDynamicConfigsOfTheLastRun(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir)
	cl := client(t, b)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType = kmsg.ConfigResourceTypeBroker
	set := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	limit := "3"
	set.Name, set.Value = "max.connections.per.ip", &limit
	resource.Configs = append(resource.Configs, set)
	req.Resources = append(req.Resources, resource)
	resp, err := cl.Request(within(t, 10*time.Second), req)
	if err != nil {
		t.Fatal(err)
	}
	if r := resp.(*kmsg.IncrementalAlterConfigsResponse).Resources[0]; r.ErrorCode != 0 {
		t.Fatalf("%v %v", kerr.ErrorForCode(r.ErrorCode), r.ErrorMessage)
	}
	cl.Close()
	stop(t, b)

	b = start(t, dir)
	defer stop(t, b)
	var open []net.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	for i := range 4 {
		c, err := net.Dial("tcp", address(b))
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
		// A connection over the limit is closed at once, others stay silent.
		if err := c.SetReadDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		_, err = c.Read(make([]byte, 1))
		if refused := !errors.Is(err, os.ErrDeadlineExceeded); refused != (i == 3) {
			t.Errorf("connection %d refused: %v (%v)", i+1, refused, err)
		}
	}
}

// TestReadyAtOnce asks a question the moment that Start returns, with logs
// still to be opened.
func TestReadyAtOnce(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir)
	produce(t, b, "early", 0, 5)
	stop(t, b)
	for range 3 {
		opts, _ := options(t, dir)
		b, err := Start(within(t, 10*time.Second), opts)
		if err != nil {
			t.Fatal(err)
		}
		consume(t, b, "early", 5)
		stop(t, b)
		if err := b.Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSeveralLogDirs spreads partitions over directories and finds them again.
func TestSeveralLogDirs(t *testing.T) {
	dirs := []string{filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")}
	b := start(t, strings.Join(dirs, ","))
	for i := range 4 {
		produce(t, b, fmt.Sprintf("spread%d", i), 0, 10)
	}
	stop(t, b)
	for _, dir := range dirs {
		found, err := filepath.Glob(filepath.Join(dir, "spread*-0"))
		if err != nil || len(found) != 2 {
			t.Errorf("%s holds %v, want two partitions (%v)", dir, found, err)
		}
		if !exists(dir, cleanMark) {
			t.Errorf("%s has no clean mark", dir)
		}
	}
	slices.Reverse(dirs)
	b = start(t, strings.Join(dirs, ","), "meta.dir="+filepath.Join(dirs[1], "__meta"))
	defer stop(t, b)
	for i := range 4 {
		consume(t, b, fmt.Sprintf("spread%d", i), 10)
	}
}
