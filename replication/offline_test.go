package replication

import (
	"errors"
	"strings"
	"testing"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
	"github.com/twmb/franz-go/pkg/kerr"
	"golang.org/x/sys/unix"
)

// tick lets time pass and does what is due then.
func (n *node) tick(ms int64) {
	n.clock.advance(ms)
	n.manager.Tick()
	n.exec.drain()
}

// TestOfflineReplicaComesBack: a replica whose directory could not be made, on
// a full disk say, is tried again, ever more rarely, and serves once it can.
func TestOfflineReplicaComesBack(t *testing.T) {
	n := newNode(t).start()
	attempts := map[string]int{}
	full := true
	n.fs.SetHook(func(c vfs.Call) error {
		if c.Op != vfs.OpMkdir {
			return nil
		}
		for _, topic := range []string{"t", "gone"} {
			if strings.HasPrefix(c.Path, testDir+"/"+topic+"-0") {
				attempts[topic]++
				if full {
					return unix.ENOSPC
				}
			}
		}
		return nil
	})
	n.create("t", 1, nil)
	n.create("gone", 1, nil)
	n.settle()
	p, gone := n.get("t", 0), n.get("gone", 0)
	if err := p.CheckLeader(noEpoch); !errors.Is(err, kerr.KafkaStorageError) {
		t.Fatalf("offline: %v", err)
	}
	n.delete("gone")
	n.settle()
	for range 3600 / 5 {
		n.tick(5000)
	}
	if a := attempts["t"]; a < 5 || a > 30 {
		t.Errorf("%d attempts in an hour", a)
	}
	if attempts["gone"] != 1 || !errors.Is(gone.CheckLeader(noEpoch), kerr.UnknownTopicOrPartition) {
		t.Errorf("%d attempts for a topic that is gone, %v", attempts["gone"], gone.CheckLeader(noEpoch))
	}
	full = false
	n.tick(retryMsMax + 5000)
	n.settle()
	if err := n.manager.WaitReady(n.ctx, "t"); err != nil {
		t.Fatal(err)
	}
	if a := appendOne(t, p, batchOf(t, baseTime, 1, "x"), acksAll); a.Err != nil || p.Err() != nil {
		t.Fatalf("%v, %v", a.Err, p.Err())
	}
	before := attempts["t"]
	for range 100 {
		n.tick(retryMsMax)
	}
	if attempts["t"] != before {
		t.Errorf("a replica that serves is made %d times more", attempts["t"]-before)
	}
}

// TestOfflineReplicaAfterAStart: so is one whose log could not be opened by a
// start, for a reason that passes.
func TestOfflineReplicaAfterAStart(t *testing.T) {
	n := newNode(t).start()
	n.create("t", 1, nil)
	n.settle()
	appendOne(t, n.get("t", 0), batchOf(t, baseTime, 3, "x"), acksAll)
	n.kill()
	n.fs.Inject(vfs.Fault{Op: vfs.OpOpen, Path: "*.log", Times: 2, Err: unix.EIO})
	n.start()
	p := n.get("t", 0)
	if p.Ready() {
		t.Fatal("the faults took nothing offline")
	}
	n.tick(retryMsMax + 5000)
	n.settle()
	if !p.Ready() || len(values(t, p, 0)) != 3 {
		t.Fatalf("not ready: %v", p.Err())
	}
}

// TestCondemnedDirectoryThatStays: the directory of a topic that was deleted
// before the last stop keeps nobody from serving, if it cannot be deleted now.
func TestCondemnedDirectoryThatStays(t *testing.T) {
	n := newNode(t).start()
	n.create("gone", 1, nil)
	n.create("t", 1, nil)
	n.settle()
	appendOne(t, n.get("t", 0), batchOf(t, baseTime, 3, "x"), acksAll)
	n.delete("gone")
	n.kill() // before its directory is renamed
	n.fs.Inject(vfs.Fault{Op: vfs.OpRename, Path: "gone-0*", Times: -1, Err: unix.EIO})
	n.start()
	if p := n.get("t", 0); !p.Ready() || len(values(t, p, 0)) != 3 {
		t.Fatalf("not ready: %v", p.Err())
	}
	n.create("new", 1, nil)
	n.settle()
	if !n.get("new", 0).Ready() {
		t.Fatal("nothing is created any more")
	}
	n.kill()
	n.start()
	if d := n.dirs("gone"); len(d) != 0 && !strings.HasSuffix(d[0], "-delete") {
		t.Fatalf("left: %v", d)
	}
}

// TestAdoptionOfUnreadableLog: the producer ids in a log that cannot be read at
// the adoption are not known, and must not be given out all the same.
func TestAdoptionOfUnreadableLog(t *testing.T) {
	const known = 5_000_000
	n := newNode(t).start()
	n.create("t", 1, nil)
	n.create("u", 1, nil)
	n.settle()
	b := record.NewBuilder().Producer(known, 0, 0).Add(baseTime, []byte("k"), []byte("v")).Build(record.None)
	if a := appendOne(t, n.get("t", 0), b, acksAll); a.Err != nil {
		t.Fatal(a.Err)
	}
	n.stop()
	n.path += ".new"
	n.fs.SetHook(func(c vfs.Call) error {
		if strings.Contains(c.Path, "/t-0/") && !strings.HasSuffix(c.Path, "partition.metadata") {
			return unix.EIO
		}
		return nil
	})
	n.start()
	if n.get("t", 0).Ready() {
		t.Fatal("the faults took nothing offline")
	}
	if first, _, err := n.controller.AllocateProducerIDs(n.ctx); err != nil || first <= known {
		t.Fatalf("producer ids from %d, %v", first, err)
	}
}
