// Package metatest is the contract of meta.Store as a test suite. Every store
// runs it: metalocal with and without its file, later etcd and ZooKeeper.
package metatest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthouse/posthouse/replication/meta"
)

// Target is a store under test.
type Target struct {
	// Open opens the store of this test, empty at first. It is closed by the
	// suite.
	Open func(t *testing.T) meta.Store
	// Durable says that Open after Close finds what was written.
	Durable bool
	// Patience bounds how long the store may take to tell news.
	Patience time.Duration
}

// Run runs the suite. fresh gives each test a target of its own.
func Run(t *testing.T, fresh func(t *testing.T) Target) {
	for _, c := range []struct {
		name string
		test func(*harness)
	}{
		{"get and list", (*harness).getAndList},
		{"guards", (*harness).guards},
		{"all or nothing", (*harness).allOrNothing},
		{"versions", (*harness).versions},
		{"limits", (*harness).limits},
		{"values are copies", (*harness).copies},
		{"watch", (*harness).watch},
		{"watch goes on from a list", (*harness).watchFrom},
		{"watch order under load", (*harness).watchOrder},
		{"watch ends", (*harness).watchEnds},
		{"election", (*harness).election},
		{"a deposed leader cannot write", (*harness).fencing},
		{"elections exclude", (*harness).electionsExclude},
		{"registration", (*harness).registration},
		{"counters under load", (*harness).counters},
		{"reopen", (*harness).reopen},
		{"closed", (*harness).closed},
		{"cancelled", (*harness).cancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := fresh(t)
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			t.Cleanup(cancel)
			h := &harness{T: t, target: target, ctx: ctx, s: target.Open(t)}
			defer func() { h.ok(h.s.Close()) }()
			c.test(h)
		})
	}
}

type harness struct {
	*testing.T
	target Target
	ctx    context.Context
	s      meta.Store
}

func (h *harness) ok(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *harness) is(err, want error) {
	h.Helper()
	if !errors.Is(err, want) {
		h.Fatalf("error is %v, want %v", err, want)
	}
}

func (h *harness) put(key, value string) meta.Version {
	h.Helper()
	r, err := h.s.Txn(h.ctx, nil, []meta.Op{meta.Put(key, []byte(value))})
	h.ok(err)
	return meta.Version(r)
}

func (h *harness) get(key string) meta.Entry {
	h.Helper()
	e, err := h.s.Get(h.ctx, key)
	h.ok(err)
	return e
}

// list renders what is under prefix as "key=value key=value".
func (h *harness) list(prefix string) string {
	h.Helper()
	entries, _, err := h.s.List(h.ctx, prefix)
	h.ok(err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Key+"="+string(e.Value))
	}
	return strings.Join(out, " ")
}

func (h *harness) equal(got, want string) {
	h.Helper()
	if got != want {
		h.Fatalf("got %q, want %q", got, want)
	}
}

func (h *harness) getAndList() {
	_, err := h.s.Get(h.ctx, "a")
	h.is(err, meta.ErrNotFound)
	h.equal(h.list(""), "")
	h.put("topics/b", "2")
	h.put("topics/a", "1")
	h.put("topics.", "x")
	h.put("topics/a/deep", "3")
	h.put("z", "")
	h.equal(string(h.get("topics/a").Value), "1")
	h.equal(h.list("topics/"), "topics/a=1 topics/a/deep=3 topics/b=2")
	h.equal(h.list(""), "topics.=x topics/a=1 topics/a/deep=3 topics/b=2 z=")
	h.equal(h.list("nothing"), "")
	_, err = h.s.Txn(h.ctx, nil, []meta.Op{meta.Delete("topics/a"), meta.Delete("never was")})
	h.ok(err)
	h.equal(h.list("topics/"), "topics/a/deep=3 topics/b=2")
	h.ok(h.s.Ready(h.ctx))
}

func (h *harness) guards() {
	_, err := meta.Create(h.ctx, h.s, "k", []byte("1"))
	h.ok(err)
	_, err = meta.Create(h.ctx, h.s, "k", []byte("2"))
	h.is(err, meta.ErrConflict)
	e := h.get("k")
	_, err = meta.Update(h.ctx, h.s, "k", e.Version, []byte("3"))
	h.ok(err)
	_, err = meta.Update(h.ctx, h.s, "k", e.Version, []byte("4"))
	h.is(err, meta.ErrConflict)
	h.equal(h.list(""), "k=3")
	h.is(second(meta.Remove(h.ctx, h.s, "k", e.Version)), meta.ErrConflict)
	h.ok(second(meta.Remove(h.ctx, h.s, "k", h.get("k").Version)))
	h.is(second(meta.Update(h.ctx, h.s, "k", e.Version, nil)), meta.ErrConflict)
	// A guard on a key that is not written counts as well.
	h.is(second(h.s.Txn(h.ctx, []meta.Guard{{Key: "other", Version: 7}}, []meta.Op{meta.Put("k", nil)})), meta.ErrConflict)
	h.equal(h.list(""), "")
}

func second(_ meta.Revision, err error) error { return err }

func (h *harness) allOrNothing() {
	v := h.put("a", "1")
	_, err := h.s.Txn(h.ctx,
		[]meta.Guard{{Key: "a", Version: v}, {Key: "b", Version: v}},
		[]meta.Op{meta.Put("a", []byte("2")), meta.Put("b", []byte("2")), meta.Put("c", []byte("2"))})
	h.is(err, meta.ErrConflict)
	h.equal(h.list(""), "a=1")
	_, err = h.s.Txn(h.ctx,
		[]meta.Guard{{Key: "a", Version: v}, {Key: "b"}},
		[]meta.Op{meta.Delete("a"), meta.Put("b", []byte("2")), meta.Put("c", []byte("2"))})
	h.ok(err)
	h.equal(h.list(""), "b=2 c=2")
}

func (h *harness) versions() {
	before := h.put("other", "x")
	first := h.put("k", "1")
	again := h.put("k", "1")
	if first <= before || again <= first {
		h.Fatalf("versions do not grow: %d, %d, %d", before, first, again)
	}
	if e := h.get("k"); e.Version != again {
		h.Fatalf("version is %d, the transaction said %d", e.Version, again)
	}
	_, err := h.s.Txn(h.ctx, nil, []meta.Op{meta.Delete("k")})
	h.ok(err)
	if anew := h.put("k", "1"); anew <= again {
		h.Fatalf("a key made again has version %d after %d", anew, again)
	}
	_, revision, err := h.s.List(h.ctx, "nothing")
	h.ok(err)
	if meta.Version(revision) < h.get("k").Version {
		h.Fatalf("list is of revision %d, before the last write", revision)
	}
}

func (h *harness) limits() {
	ops := make([]meta.Op, meta.MaxTxnOps+1)
	for i := range ops {
		ops[i] = meta.Put(fmt.Sprintf("many/%04d", i), []byte("v"))
	}
	h.is(second(h.s.Txn(h.ctx, nil, ops)), meta.ErrTooLarge)
	h.equal(h.list("many/"), "")
	h.ok(second(h.s.Txn(h.ctx, nil, ops[:meta.MaxTxnOps])))
	entries, _, err := h.s.List(h.ctx, "many/")
	h.ok(err)
	if len(entries) != meta.MaxTxnOps {
		h.Fatalf("%d entries", len(entries))
	}
	big := strings.Repeat("x", 600<<10)
	h.put("big", big)
	h.equal(string(h.get("big").Value), big)
}

func (h *harness) copies() {
	value := []byte("abc")
	h.ok(second(h.s.Txn(h.ctx, nil, []meta.Op{meta.Put("k", value)})))
	value[0] = 'X'
	h.equal(string(h.get("k").Value), "abc")
}

// next takes one event.
func (h *harness) next(ch <-chan meta.Event) meta.Event {
	h.Helper()
	select {
	case ev, ok := <-ch:
		if !ok {
			h.Fatal("watch ended")
		}
		return ev
	case <-time.After(h.target.Patience):
		h.Fatal("no event")
	}
	return meta.Event{}
}

func render(ev meta.Event) string {
	var out []string
	for _, c := range ev.Changes {
		if c.Deleted {
			out = append(out, "-"+c.Key)
		} else {
			out = append(out, c.Key+"="+string(c.Value))
		}
	}
	return strings.Join(out, " ")
}

func (h *harness) watch() {
	_, revision, err := h.s.List(h.ctx, "")
	h.ok(err)
	ch, err := h.s.Watch(h.ctx, "in/", revision)
	h.ok(err)
	v := h.put("in/a", "1")
	h.put("out", "1")
	r, err := h.s.Txn(h.ctx, nil, []meta.Op{meta.Put("in/b", []byte("2")), meta.Put("out", []byte("2")), meta.Delete("in/a")})
	h.ok(err)
	ev := h.next(ch)
	h.equal(render(ev), "in/a=1")
	if meta.Version(ev.Revision) != v || ev.Changes[0].Version != v {
		h.Fatalf("event has revision %d and version %d, the write %d", ev.Revision, ev.Changes[0].Version, v)
	}
	ev = h.next(ch)
	h.equal(render(ev), "in/b=2 -in/a")
	if ev.Revision != r {
		h.Fatalf("event has revision %d, the write %d", ev.Revision, r)
	}
}

func (h *harness) watchFrom() {
	h.put("k", "0")
	_, revision, err := h.s.List(h.ctx, "")
	h.ok(err)
	for i := 1; i <= 20; i++ {
		h.put("k", fmt.Sprint(i))
	}
	ch, err := h.s.Watch(h.ctx, "", revision)
	h.ok(err)
	h.put("k", "21")
	for i := 1; i <= 21; i++ {
		h.equal(render(h.next(ch)), fmt.Sprintf("k=%d", i))
	}
}

// watchOrder lets several writers run against several watchers, each of which
// must see every transaction once, whole, and in order.
func (h *harness) watchOrder() {
	const writers, rounds = 4, 50
	_, revision, err := h.s.List(h.ctx, "")
	h.ok(err)
	var watches []<-chan meta.Event
	for range 3 {
		ch, err := h.s.Watch(h.ctx, "w/", revision)
		h.ok(err)
		watches = append(watches, ch)
	}
	var wg sync.WaitGroup
	var failed atomic.Pointer[error]
	for w := range writers {
		wg.Go(func() {
			for i := range rounds {
				value := []byte(fmt.Sprint(i))
				_, err := h.s.Txn(h.ctx, nil, []meta.Op{meta.Put(fmt.Sprintf("w/%d/a", w), value), meta.Put(fmt.Sprintf("w/%d/b", w), value)})
				if err != nil {
					failed.Store(&err)
					return
				}
			}
		})
	}
	for _, ch := range watches {
		seen := make([]int, writers)
		last := revision
		for range writers * rounds {
			ev := h.next(ch)
			if ev.Revision <= last {
				h.Fatalf("revision %d after %d", ev.Revision, last)
			}
			last = ev.Revision
			var w, v int
			if _, err := fmt.Sscanf(render(ev), "w/%d/a=%d", &w, &v); err != nil || len(ev.Changes) != 2 {
				h.Fatalf("torn event %q", render(ev))
			}
			if v != seen[w] {
				h.Fatalf("writer %d: value %d, want %d", w, v, seen[w])
			}
			seen[w]++
		}
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		h.Fatal(*err)
	}
}

func (h *harness) watchEnds() {
	ctx, cancel := context.WithCancel(h.ctx)
	_, revision, err := h.s.List(h.ctx, "")
	h.ok(err)
	ch, err := h.s.Watch(ctx, "", revision)
	h.ok(err)
	other, err := h.s.Watch(h.ctx, "", revision)
	h.ok(err)
	cancel()
	h.drained(ch)
	h.ok(h.s.Close())
	h.drained(other)
}

// drained waits for the end of a watch.
func (h *harness) drained(ch <-chan meta.Event) {
	h.Helper()
	for {
		select {
		case _, ok := <-ch:
			if !ok {
				return
			}
		case <-time.After(h.target.Patience):
			h.Fatal("watch does not end")
		}
	}
}

func (h *harness) gone(done <-chan struct{}) {
	h.Helper()
	select {
	case <-done:
	case <-time.After(h.target.Patience):
		h.Fatal("not told")
	}
}

func (h *harness) election() {
	first, err := h.s.Elect(h.ctx, "office", "1")
	h.ok(err)
	h.equal(h.list(meta.PrefixOffices), "offices/office=1")
	other, err := h.s.Elect(h.ctx, "another", "1")
	h.ok(err)
	ctx, cancel := context.WithTimeout(h.ctx, 20*time.Millisecond)
	defer cancel()
	_, err = h.s.Elect(ctx, "office", "2")
	h.is(err, context.DeadlineExceeded)
	won := make(chan meta.Leadership, 1)
	go func() {
		l, err := h.s.Elect(h.ctx, "office", "3")
		if err != nil {
			h.Error(err)
		}
		won <- l
	}()
	h.ok(first.Resign(h.ctx))
	h.gone(first.Done())
	h.is(first.Resign(h.ctx), meta.ErrLost)
	select {
	case l := <-won:
		h.equal(string(h.get("offices/office").Value), "3")
		h.ok(l.Resign(h.ctx))
	case <-time.After(h.target.Patience):
		h.Fatal("nobody was elected")
	}
	h.ok(other.Resign(h.ctx))
	h.equal(h.list(meta.PrefixOffices), "")
}

func (h *harness) fencing() {
	old, err := h.s.Elect(h.ctx, "office", "1")
	h.ok(err)
	h.ok(second(h.s.Txn(h.ctx, []meta.Guard{old.Guard()}, []meta.Op{meta.Put("k", []byte("1"))})))
	h.ok(old.Resign(h.ctx))
	write := func(l meta.Leadership) error {
		return second(h.s.Txn(h.ctx, []meta.Guard{l.Guard()}, []meta.Op{meta.Put("k", []byte("2"))}))
	}
	h.is(write(old), meta.ErrConflict)
	next, err := h.s.Elect(h.ctx, "office", "1")
	h.ok(err)
	h.is(write(old), meta.ErrConflict)
	h.equal(h.list("k"), "k=1")
	h.ok(write(next))
}

func (h *harness) electionsExclude() {
	var wg sync.WaitGroup
	var inOffice, terms atomic.Int32
	for id := range 8 {
		wg.Go(func() {
			for range 5 {
				l, err := h.s.Elect(h.ctx, "office", fmt.Sprint(id))
				if err != nil {
					h.Error(err)
					return
				}
				if n := inOffice.Add(1); n != 1 {
					h.Errorf("%d in office", n)
				}
				terms.Add(1)
				inOffice.Add(-1)
				if err := l.Resign(h.ctx); err != nil {
					h.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := terms.Load(); n != 40 {
		h.Fatalf("%d terms", n)
	}
}

func (h *harness) registration() {
	r, err := h.s.Register(h.ctx, "live/1", []byte("here"), time.Minute)
	h.ok(err)
	e := h.get("live/1")
	if e.Version != r.Entry().Version || string(r.Entry().Value) != "here" {
		h.Fatalf("registered %+v, found %+v", r.Entry(), e)
	}
	_, err = h.s.Register(h.ctx, "live/1", []byte("me too"), time.Minute)
	h.is(err, meta.ErrConflict)
	h.ok(r.Revoke(h.ctx))
	h.gone(r.Done())
	h.equal(h.list("live/"), "")
	h.is(r.Revoke(h.ctx), meta.ErrLost)
	r, err = h.s.Register(h.ctx, "live/1", []byte("again"), time.Minute)
	h.ok(err)
	// Whoever fences a broker deletes its registration.
	h.ok(second(h.s.Txn(h.ctx, []meta.Guard{{Key: "live/1", Version: r.Entry().Version}}, []meta.Op{meta.Delete("live/1")})))
	h.gone(r.Done())
}

// counters lets many goroutines count by compare-and-set: nothing may be lost.
func (h *harness) counters() {
	const workers, rounds = 8, 20
	h.put("n", "0")
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for done := 0; done < rounds; {
				e, err := h.s.Get(h.ctx, "n")
				if err != nil {
					h.Error(err)
					return
				}
				var n int
				if _, err := fmt.Sscan(string(e.Value), &n); err != nil {
					h.Error(err)
					return
				}
				switch _, err := meta.Update(h.ctx, h.s, "n", e.Version, []byte(fmt.Sprint(n+1))); {
				case err == nil:
					done++
				case !errors.Is(err, meta.ErrConflict):
					h.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	h.equal(h.list("n"), fmt.Sprintf("n=%d", workers*rounds))
}

func (h *harness) reopen() {
	if !h.target.Durable {
		return // nothing is promised, and so nothing can be broken
	}
	_, err := h.s.Register(h.ctx, "live/1", []byte("here"), time.Second)
	h.ok(err)
	_, err = h.s.Elect(h.ctx, "office", "1")
	h.ok(err)
	version := h.put("a", "1")
	h.put("b", "2")
	h.ok(second(h.s.Txn(h.ctx, nil, []meta.Op{meta.Delete("b"), meta.Put("c", []byte("3"))})))
	last := h.put("c", "4")
	for i := range 3 {
		h.ok(h.s.Close())
		h.s = h.target.Open(h.T)
		// What was bound to the closed store's life ends; give a remote one the
		// time to notice.
		h.eventually(func() bool { return h.list("live/")+h.list(meta.PrefixOffices) == "" })
		h.equal(h.list("a"), "a=1")
		h.equal(h.list("c"), "c=4")
		if v := h.get("a").Version; v != version {
			h.Fatalf("version %d came back as %d", version, v)
		}
		next := h.put("d", fmt.Sprint(i))
		if next <= last {
			h.Fatalf("after reopening a write has version %d, not above %d", next, last)
		}
		last = next
		r, err := h.s.Register(h.ctx, "live/1", nil, time.Second)
		h.ok(err)
		if r.Entry().Version <= last {
			h.Fatalf("a registration has version %d, not above %d", r.Entry().Version, last)
		}
		last = r.Entry().Version
	}
	entries, _, err := h.s.List(h.ctx, "")
	h.ok(err)
	if !slices.IsSortedFunc(entries, func(a, b meta.Entry) int { return strings.Compare(a.Key, b.Key) }) {
		h.Fatal("list is not sorted")
	}
}

func (h *harness) eventually(cond func() bool) {
	h.Helper()
	for deadline := time.Now().Add(h.target.Patience); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			h.Fatal("does not come about")
		}
	}
}

func (h *harness) closed() {
	l, err := h.s.Elect(h.ctx, "office", "1")
	h.ok(err)
	r, err := h.s.Register(h.ctx, "live/1", nil, time.Second)
	h.ok(err)
	waiting := make(chan error, 1)
	go func() {
		_, err := h.s.Elect(h.ctx, "office", "2")
		waiting <- err
	}()
	h.ok(h.s.Close())
	h.gone(l.Done())
	h.gone(r.Done())
	select {
	case err := <-waiting:
		h.is(err, meta.ErrClosed)
	case <-time.After(h.target.Patience):
		h.Fatal("a candidate waits on a closed store")
	}
	_, err = h.s.Get(h.ctx, "a")
	h.is(err, meta.ErrClosed)
	_, _, err = h.s.List(h.ctx, "")
	h.is(err, meta.ErrClosed)
	h.is(second(h.s.Txn(h.ctx, nil, []meta.Op{meta.Put("a", nil)})), meta.ErrClosed)
	_, err = h.s.Watch(h.ctx, "", 0)
	h.is(err, meta.ErrClosed)
	h.is(h.s.Ready(h.ctx), meta.ErrClosed)
	h.ok(h.s.Close())
}

func (h *harness) cancelled() {
	ctx, cancel := context.WithCancel(h.ctx)
	cancel()
	_, err := h.s.Get(ctx, "a")
	h.is(err, context.Canceled)
	h.is(second(h.s.Txn(ctx, nil, []meta.Op{meta.Put("a", nil)})), context.Canceled)
	_, err = h.s.Elect(ctx, "office", "1")
	h.is(err, context.Canceled)
	h.equal(h.list(""), "")
}
