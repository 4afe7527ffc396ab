package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// alter sets one config, or removes it where the value is empty.
func alter(t *testing.T, cl *kgo.Client, kind kmsg.ConfigResourceType, name, key, value string) {
	t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, name
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Value = key, &value
	if value == "" {
		c.Op, c.Value = kmsg.IncrementalAlterConfigOpDelete, nil
	}
	r.Configs = append(r.Configs, c)
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(within(t, time.Minute), cl)
	if err != nil {
		t.Fatal(err)
	}
	if code := resp.Resources[0].ErrorCode; code != 0 {
		t.Fatalf("%s=%s: %v %s", key, value, kerr.ErrorForCode(code), *resp.Resources[0].ErrorMessage)
	}
}

// dialled opens n connections and returns how many of them the broker keeps.
func dialled(t *testing.T, address string, n int) (kept int) {
	t.Helper()
	for range n {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		// An ApiVersions v0 that is answered, or the end of the connection.
		if _, err := c.Write([]byte{0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff}); err != nil {
			continue
		}
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		if m, _ := c.Read(make([]byte, 4)); m > 0 {
			kept++
		}
	}
	return kept
}

// TestDynamicConfigsHoldAtOnce changes what a broker that runs allows, and finds
// it again after a restart.
func TestDynamicConfigsHoldAtOnce(t *testing.T) {
	dir := t.TempDir()
	opts, _ := options(t, dir)
	opts.LogLevel = new(slog.LevelVar)
	b, err := Start(within(t, time.Minute), opts)
	if err != nil {
		t.Fatal(err)
	}
	address := b.listeners[0].Address()
	cl, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	broker := kmsg.ConfigResourceTypeBroker

	alter(t, cl, broker, "", "max.connections.per.ip", "8")
	if kept := dialled(t, address, 12); kept < 2 || kept > 7 {
		t.Errorf("8 connections from an address may be open, and %d of 12 more are", kept)
	}
	alter(t, cl, broker, "", "max.connections.per.ip.overrides", "127.0.0.1:100")
	if kept := dialled(t, address, 12); kept != 12 {
		t.Errorf("with an exception for the address %d of 12 are kept", kept)
	}
	alter(t, cl, broker, "", "max.connections.per.ip.overrides", "")
	alter(t, cl, broker, "", "max.connections.per.ip", "")
	if kept := dialled(t, address, 12); kept != 12 {
		t.Errorf("without limits %d of 12 are kept", kept)
	}

	alter(t, cl, broker, "", "message.max.bytes", "2000")
	produce := func(n int) error {
		return cl.ProduceSync(within(t, time.Minute), &kgo.Record{Topic: "t", Value: fmt.Appendf(nil, "%0*d", n, 1)}).FirstErr()
	}
	if err := produce(100); err != nil {
		t.Fatal(err)
	}
	// Not compressible by much: the producer compresses.
	alter(t, cl, broker, "1", "message.max.bytes", "90")
	if err := produce(5000); !errors.Is(err, kerr.MessageTooLarge) {
		t.Errorf("a message above message.max.bytes: %v", err)
	}
	alter(t, cl, broker, "1", "message.max.bytes", "")

	alter(t, cl, kmsg.ConfigResourceTypeBrokerLogger, "1", "root", "DEBUG")
	if opts.LogLevel.Level() != slog.LevelDebug {
		t.Error("the log's level is as it was")
	}
	alterQuota(t, cl, 12345)
	if err := b.Stop(within(t, time.Minute), nil); err != nil {
		t.Fatal(err)
	}

	b = start(t, dir)
	again, err := kgo.NewClient(kgo.SeedBrokers(b.listeners[0].Address()))
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	resp, err := kmsg.NewPtrDescribeClientQuotasRequest().RequestWith(within(t, time.Minute), again)
	if err != nil || len(resp.Entries) != 1 || resp.Entries[0].Values[0].Value != 12345 {
		t.Errorf("after a restart the quotas are %+v, %v", resp, err)
	}
	if !b.quotas.Any() {
		t.Error("the quota is kept and not in force")
	}
	if err := b.Stop(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
}

func alterQuota(t *testing.T, cl *kgo.Client, rate float64) {
	t.Helper()
	req := kmsg.NewPtrAlterClientQuotasRequest()
	e := kmsg.NewAlterClientQuotasRequestEntry()
	e.Entity = []kmsg.AlterClientQuotasRequestEntryEntity{{Type: "client-id", Name: kmsg.StringPtr("greedy")}}
	e.Ops = []kmsg.AlterClientQuotasRequestEntryOp{{Key: "producer_byte_rate", Value: rate}}
	req.Entries = append(req.Entries, e)
	if resp, err := req.RequestWith(within(t, time.Minute), cl); err != nil || resp.Entries[0].ErrorCode != 0 {
		t.Fatalf("quota: %+v, %v", resp, err)
	}
}
