//go:build e2e

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/posthouse/posthouse/bench"
	"github.com/twmb/franz-go/pkg/kerr"
)

// TestKill ends the broker by SIGKILL again and again under the load of an
// acks=1 producer and of an idempotent acks=all producer, and holds what is
// there after each restart against the acknowledgements. Kills are aimed in
// turn at what changes files: rolls (segments of 1 MiB, some per second),
// checkpoints (ten a second), the creation and the deletion of topics, the
// recovery after the last kill. The page cache survives; power loss is not
// tested here.
func TestKill(t *testing.T) {
	kills := amount(20, 6)
	onEachEngine(t, func(t *testing.T, engine string) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		k := &killer{
			rng: rand.New(rand.NewPCG(seed, 0)),
			s: startServer(t, engine, "log.flush.offset.checkpoint.interval.ms=100",
				"replica.high.watermark.checkpoint.interval.ms=100", "log.flush.start.offset.checkpoint.interval.ms=100"),
		}
		configs := map[string]string{"segment.bytes": "1048576"}
		mustCreateTopic(t, k.s.addr, "acks1", loadPartitions, configs)
		mustCreateTopic(t, k.s.addr, "idempotent", loadPartitions, configs)
		loads := []*load{startLoad(t, k.s.addr, "acks1", false), startLoad(t, k.s.addr, "idempotent", true)}
		aims := []struct {
			name string
			kill func(t *testing.T, n int) (check func(t *testing.T))
		}{
			{"load", k.underLoad}, {"roll", k.inRoll}, {"checkpoint", k.inCheckpoint},
			{"creation", k.inCreation}, {"deletion", k.inDeletion}, {"recovery", k.inRecovery},
		}
		for n := range kills {
			aim := aims[n%len(aims)]
			waitAcks(t, loads, 2000)
			check := aim.kill(t, n)
			k.s.start(t)
			for _, l := range loads {
				l.verify(t, k.s.addr)
			}
			if check != nil {
				check(t)
			}
			t.Logf("kill %d (%s): ready after %v, %d and %d records acknowledged so far", n+1, aim.name,
				k.s.ReadyAfter.Round(time.Millisecond), loads[0].ackedCount(), loads[1].ackedCount())
		}
		for _, l := range loads {
			l.end(t)
			l.verifyEnd(t, k.s.addr)
		}
		k.s.stop(t)
		files := dumpLogs(t, k.s.Config.Dir, allSegments)
		t.Logf("%d kills survived, DumpLogSegments read %d files", kills, files)
	})
}

// waitAcks waits until each load has n more acknowledgements than now: the
// producers are back at work.
func waitAcks(t *testing.T, loads []*load, n int) {
	t.Helper()
	for _, l := range loads {
		want := l.ackedCount() + n
		for deadline := time.Now().Add(30 * time.Second); l.ackedCount() < want; time.Sleep(time.Millisecond) {
			if err := l.failure.Load(); err != nil {
				t.Fatal(*err)
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: no %d new acknowledgements in 30 s", l.topic, n)
			}
		}
	}
}

// killer kills the broker at chosen moments. Each method ends with the broker
// dead and returns what is to be checked after the restart, if anything.
type killer struct {
	rng *rand.Rand
	s   *server
}

func (k *killer) sleep(most time.Duration) { time.Sleep(time.Duration(k.rng.Int64N(int64(most)))) }

func (k *killer) underLoad(*testing.T, int) func(*testing.T) {
	k.sleep(300 * time.Millisecond)
	k.s.Process.Kill()
	return nil
}

// inRoll waits for a segment file that was not there and kills at once.
func (k *killer) inRoll(t *testing.T, _ int) func(*testing.T) {
	known := map[string]bool{}
	k.untilNew(t, "*-*/*.log", func(path string, first bool) bool {
		seen := known[path]
		known[path] = true
		return !first && !seen
	})
	k.s.Process.Kill()
	return nil
}

// inCheckpoint waits for a checkpoint, or the temporary file that becomes one,
// to change and kills at once.
func (k *killer) inCheckpoint(t *testing.T, _ int) func(*testing.T) {
	known := map[string][]byte{}
	k.untilNew(t, "*-checkpoint*", func(path string, first bool) bool {
		data, err := os.ReadFile(path)
		if err != nil {
			return false // renamed between the listing and now
		}
		changed := !bytes.Equal(known[path], data)
		known[path] = data
		return !first && changed
	})
	k.s.Process.Kill()
	return nil
}

// untilNew looks at the files that match a pattern, again and again, until one
// is new.
func (k *killer) untilNew(t *testing.T, pattern string, isNew func(path string, first bool) bool) {
	t.Helper()
	first := true
	for deadline := time.Now().Add(15 * time.Second); ; first = false {
		paths, err := filepath.Glob(filepath.Join(k.s.Config.Dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, path := range paths {
			found = isNew(path, first) || found
		}
		if found {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing new under %s for 15 s", pattern)
		}
		time.Sleep(200 * time.Microsecond)
	}
}

const killedTopicPartitions = 8

// inCreation kills while a topic is created. If the creation was acknowledged
// the topic is there; in any case it is whole or not there at all.
func (k *killer) inCreation(t *testing.T, n int) func(*testing.T) {
	began := time.Now()
	if _, err := createTopic(t, k.s.addr, fmt.Sprintf("timed-%d", n), killedTopicPartitions, nil); err != nil {
		t.Fatal(err)
	}
	topic := fmt.Sprintf("created-%d", n)
	answered, err := k.during(t, time.Since(began), func() (bool, error) {
		return createTopic(t, k.s.addr, topic, killedTopicPartitions, nil)
	})
	if answered && err != nil {
		t.Fatalf("create %s: %v", topic, err)
	}
	return func(t *testing.T) {
		_, exists := describeTopic(t, k.s.addr, topic)
		t.Logf("creation of %s: acknowledged %v, there %v", topic, answered, exists)
		if answered && !exists {
			t.Fatalf("%s: created, acknowledged and gone", topic)
		}
		if !exists {
			mustCreateTopic(t, k.s.addr, topic, killedTopicPartitions, nil)
		}
		k.checkEmpty(t, topic)
	}
}

// inDeletion kills while a topic is deleted. If the deletion was acknowledged
// the topic is gone; in any case it is gone or still has all its records, and
// its name can be used again for an empty topic.
func (k *killer) inDeletion(t *testing.T, n int) func(*testing.T) {
	timed, topic := fmt.Sprintf("timed-%d", n), fmt.Sprintf("deleted-%d", n)
	mustCreateTopic(t, k.s.addr, timed, killedTopicPartitions, nil)
	mustCreateTopic(t, k.s.addr, topic, killedTopicPartitions, nil)
	before, _ := describeTopic(t, k.s.addr, topic)
	for p := range int32(killedTopicPartitions) {
		produceBatch(t, k.s.addr, topic, p, bench.Batch(k.rng, 10, 100))
	}
	began := time.Now()
	if _, err := deleteTopic(t, k.s.addr, timed); err != nil {
		t.Fatal(err)
	}
	answered, err := k.during(t, time.Since(began), func() (bool, error) { return deleteTopic(t, k.s.addr, topic) })
	if answered && err != nil {
		t.Fatalf("delete %s: %v", topic, err)
	}
	return func(t *testing.T) {
		found, exists := describeTopic(t, k.s.addr, topic)
		t.Logf("deletion of %s: acknowledged %v, there %v", topic, answered, exists)
		if answered && exists {
			t.Fatalf("%s: deleted, acknowledged and still there", topic)
		}
		if exists {
			if found.TopicID != before.TopicID {
				t.Fatalf("%s: its id was % x and is % x", topic, before.TopicID, found.TopicID)
			}
			waitTopic(t, k.s.addr, topic, killedTopicPartitions)
			for p := range int32(killedTopicPartitions) {
				if end := endOffset(t, k.s.addr, topic, p); end != 10 {
					t.Fatalf("%s-%d ends at %d, 10 records were acknowledged", topic, p, end)
				}
			}
			if _, err := deleteTopic(t, k.s.addr, topic); err != nil {
				t.Fatalf("delete %s again: %v", topic, err)
			}
		}
		k.recreate(t, topic)
		if after, _ := describeTopic(t, k.s.addr, topic); after.TopicID == before.TopicID {
			t.Fatalf("%s: created anew with the id of the deleted one", topic)
		}
		k.checkEmpty(t, topic)
	}
}

// recreate creates a topic whose deletion may still be under way.
func (k *killer) recreate(t *testing.T, topic string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		_, err := createTopic(t, k.s.addr, topic, killedTopicPartitions, nil)
		if err == nil {
			waitTopic(t, k.s.addr, topic, killedTopicPartitions)
			return
		}
		if !errors.Is(err, kerr.TopicAlreadyExists) || time.Now().After(deadline) {
			t.Fatalf("create %s anew: %v", topic, err)
		}
	}
}

// checkEmpty checks that a topic's partitions are empty and take records.
func (k *killer) checkEmpty(t *testing.T, topic string) {
	t.Helper()
	waitTopic(t, k.s.addr, topic, killedTopicPartitions)
	for p := range int32(killedTopicPartitions) {
		if base := produceBatch(t, k.s.addr, topic, p, bench.Batch(k.rng, 3, 10)); base != 0 {
			t.Fatalf("%s-%d: the first record has offset %d", topic, p, base)
		}
	}
}

// during starts a call and kills the broker at some moment of the time that
// such a call takes.
func (k *killer) during(t *testing.T, takes time.Duration, call func() (bool, error)) (answered bool, err error) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		answered, err = call()
	}()
	k.sleep(takes)
	k.s.Process.Kill()
	<-done
	return answered, err
}

// inRecovery kills, starts and kills again before the start is over.
func (k *killer) inRecovery(t *testing.T, _ int) func(*testing.T) {
	k.s.Process.Kill()
	for range 3 {
		if err := k.s.Launch(within(t, time.Minute)); err != nil {
			t.Fatal(err)
		}
		k.sleep(50 * time.Millisecond)
		k.s.Process.Kill()
	}
	return nil
}
