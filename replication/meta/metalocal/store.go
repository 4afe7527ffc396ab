// Package metalocal is the meta.Store of a single node: a map in memory, made
// durable by one bbolt file. Without a file it serves tests.
//
// Every Txn is one bbolt transaction, synced before it is visible. Offices and
// registrations end with the process, so they live in memory only. Reads never
// touch the file.
package metalocal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/posthouse/posthouse/replication/meta"
)

// Store implements meta.Store.
type Store struct {
	file *file // nil: memory only

	// write orders transactions; it is held across the file's sync. mu guards
	// the memory and is held for moments. Lock order: write, then mu.
	write sync.Mutex
	mu    sync.RWMutex

	entries map[string]meta.Entry
	// ephemeral holds what ends when one of these keys goes.
	ephemeral map[string]*registration
	revision  meta.Revision
	durable   meta.Revision // the last revision in the file
	history   history
	watchers  map[*watcher]struct{}
	closed    chan struct{}
	isClosed  bool
}

// Open opens or makes the store in the file at path; "" keeps it in memory
// only. A file that another process has open, or that is damaged, is an error
// that names it.
func Open(path string) (*Store, error) {
	s := &Store{
		entries:   map[string]meta.Entry{},
		ephemeral: map[string]*registration{},
		watchers:  map[*watcher]struct{}{},
		closed:    make(chan struct{}),
	}
	if path == "" {
		return s, nil
	}
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	entries, revision, err := f.read()
	if err != nil {
		f.close()
		return nil, err
	}
	s.file, s.entries, s.durable = f, entries, revision
	// What ephemeral keys used up before the last stop is not in the file.
	s.revision = revision + revisionGap
	s.history.start = s.revision
	return s, nil
}

// revisionGap is how far revisions may run ahead of the file by writes that
// are not kept in it.
const revisionGap = 1 << 20

// Path is the store's file, "" without one.
func (s *Store) Path() string {
	if s.file == nil {
		return ""
	}
	return s.file.path
}

// Get implements meta.Store.
func (s *Store) Get(ctx context.Context, key string) (meta.Entry, error) {
	if err := ctx.Err(); err != nil {
		return meta.Entry{}, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.isClosed {
		return meta.Entry{}, meta.ErrClosed
	}
	e, ok := s.entries[key]
	if !ok {
		return meta.Entry{}, fmt.Errorf("%w: %q", meta.ErrNotFound, key)
	}
	return e, nil
}

// List implements meta.Store.
func (s *Store) List(ctx context.Context, prefix string) ([]meta.Entry, meta.Revision, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	s.mu.RLock()
	if s.isClosed {
		s.mu.RUnlock()
		return nil, 0, meta.ErrClosed
	}
	var out []meta.Entry
	for key, e := range s.entries {
		if strings.HasPrefix(key, prefix) {
			out = append(out, e)
		}
	}
	revision := s.revision
	s.mu.RUnlock()
	slices.SortFunc(out, func(a, b meta.Entry) int { return strings.Compare(a.Key, b.Key) })
	return out, revision, nil
}

// Txn implements meta.Store.
func (s *Store) Txn(ctx context.Context, guards []meta.Guard, ops []meta.Op) (meta.Revision, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := check(ops); err != nil {
		return 0, err
	}
	s.write.Lock()
	defer s.write.Unlock()
	return s.commit(guards, ops, s.file != nil)
}

func check(ops []meta.Op) error {
	if len(ops) > meta.MaxTxnOps {
		return fmt.Errorf("%w: %d, at most %d", meta.ErrTooLarge, len(ops), meta.MaxTxnOps)
	}
	seen := make(map[string]struct{}, len(ops))
	for _, op := range ops {
		if _, twice := seen[op.Key]; twice {
			panic(fmt.Sprintf("BUG: key %q twice in one transaction", op.Key))
		}
		if op.Key == "" || op.Key[0] == '/' || op.Key[len(op.Key)-1] == '/' {
			panic(fmt.Sprintf("BUG: %q is no key", op.Key))
		}
		seen[op.Key] = struct{}{}
	}
	return nil
}

// commit checks the guards and writes. s.write is held.
func (s *Store) commit(guards []meta.Guard, ops []meta.Op, toFile bool) (meta.Revision, error) {
	s.mu.RLock()
	closed, revision := s.isClosed, s.revision
	conflict := ""
	for _, g := range guards {
		if s.entries[g.Key].Version != g.Version {
			conflict = g.Key
			break
		}
	}
	s.mu.RUnlock()
	switch {
	case closed:
		return 0, meta.ErrClosed
	case conflict != "":
		return 0, fmt.Errorf("%w: %q", meta.ErrConflict, conflict)
	case len(ops) == 0:
		return revision, nil
	}
	revision++
	if s.file != nil && (toFile || revision-s.durable >= revisionGap) {
		var kept []meta.Op
		if toFile {
			kept = ops
		}
		if err := s.file.write(revision, kept); err != nil {
			return 0, s.reread(err)
		}
		s.durable = revision
	}
	s.apply(revision, ops)
	return revision, nil
}

// apply makes a committed transaction visible.
func (s *Store) apply(revision meta.Revision, ops []meta.Op) {
	ev := meta.Event{Revision: revision, Changes: make([]meta.Change, 0, len(ops))}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision = revision
	for _, op := range ops {
		_, existed := s.entries[op.Key]
		if r := s.ephemeral[op.Key]; r != nil {
			delete(s.ephemeral, op.Key)
			close(r.done)
		}
		if op.Delete {
			if existed {
				delete(s.entries, op.Key)
				ev.Changes = append(ev.Changes, meta.Change{Entry: meta.Entry{Key: op.Key}, Deleted: true})
			}
			continue
		}
		e := meta.Entry{Key: op.Key, Value: slices.Clone(op.Value), Version: meta.Version(revision)}
		s.entries[op.Key] = e
		ev.Changes = append(ev.Changes, meta.Change{Entry: e})
	}
	s.history.add(ev)
	for w := range s.watchers {
		w.offer(ev)
	}
}

// reread takes over what the file really holds after a write to it failed: the
// write may have reached it. cause is what went wrong. s.write is held.
func (s *Store) reread(cause error) error {
	entries, revision, err := s.file.read()
	if err != nil {
		// Neither reading nor writing: nothing can be promised any more.
		s.shut()
		return fmt.Errorf("%w; then %w", cause, err)
	}
	if revision <= s.durable {
		return cause
	}
	var ops []meta.Op
	for key, e := range entries {
		if e.Version == meta.Version(revision) {
			ops = append(ops, meta.Put(key, e.Value))
		}
	}
	s.mu.RLock()
	for key := range s.entries {
		if _, kept := entries[key]; !kept && s.ephemeral[key] == nil {
			ops = append(ops, meta.Delete(key))
		}
	}
	s.mu.RUnlock()
	slices.SortFunc(ops, func(a, b meta.Op) int { return strings.Compare(a.Key, b.Key) })
	s.durable = revision
	s.apply(revision, ops)
	return cause
}

// Ready implements meta.Store: it writes, for only a write shows that one can.
func (s *Store) Ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.write.Lock()
	defer s.write.Unlock()
	s.mu.RLock()
	closed, revision := s.isClosed, s.revision
	s.mu.RUnlock()
	if closed {
		return meta.ErrClosed
	}
	if s.file == nil {
		return nil
	}
	if err := s.file.write(revision, nil); err != nil {
		return s.reread(err)
	}
	s.durable = revision
	return nil
}

// Close implements meta.Store.
func (s *Store) Close() error {
	s.write.Lock()
	defer s.write.Unlock()
	if !s.shut() {
		return nil
	}
	if s.file == nil {
		return nil
	}
	return s.file.close()
}

// shut ends watches, offices and registrations; false if it was done before.
func (s *Store) shut() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed {
		return false
	}
	s.isClosed = true
	close(s.closed)
	for _, r := range s.ephemeral {
		close(r.done)
	}
	clear(s.ephemeral)
	for w := range s.watchers {
		w.end()
	}
	clear(s.watchers)
	return true
}

// registration is an ephemeral key; it serves as leadership too.
type registration struct {
	s     *Store
	entry meta.Entry
	done  chan struct{} // closed under s.mu when the key goes
}

// Register implements meta.Store. The key lives until it is revoked or the
// store is closed; ttl has no meaning within one process.
func (s *Store) Register(ctx context.Context, key string, value []byte, _ time.Duration) (meta.Registration, error) {
	r, err := s.register(ctx, key, value)
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (s *Store) register(ctx context.Context, key string, value []byte) (*registration, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ops := []meta.Op{meta.Put(key, value)}
	if err := check(ops); err != nil {
		return nil, err
	}
	s.write.Lock()
	defer s.write.Unlock()
	if _, err := s.commit([]meta.Guard{{Key: key}}, ops, false); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &registration{s: s, entry: s.entries[key], done: make(chan struct{})}
	s.ephemeral[key] = r
	return r, nil
}

// Entry implements meta.Registration.
func (r *registration) Entry() meta.Entry { return r.entry }

// Done implements meta.Registration and meta.Leadership.
func (r *registration) Done() <-chan struct{} { return r.done }

// Revoke implements meta.Registration.
func (r *registration) Revoke(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s := r.s
	s.write.Lock()
	defer s.write.Unlock()
	select {
	case <-r.done:
		return meta.ErrLost
	default:
	}
	_, err := s.commit([]meta.Guard{r.Guard()}, []meta.Op{meta.Delete(r.entry.Key)}, false)
	return err
}

// Guard implements meta.Leadership.
func (r *registration) Guard() meta.Guard {
	return meta.Guard{Key: r.entry.Key, Version: r.entry.Version}
}

// Resign implements meta.Leadership.
func (r *registration) Resign(ctx context.Context) error { return r.Revoke(ctx) }

// Elect implements meta.Store.
func (s *Store) Elect(ctx context.Context, office, id string) (meta.Leadership, error) {
	key := meta.PrefixOffices + office
	for {
		won, holder, err := s.tryElect(ctx, key, id)
		if err != nil || won != nil {
			return won, err
		}
		select {
		case <-holder.done:
		case <-s.closed:
			return nil, meta.ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// tryElect takes the office, or returns who holds it.
func (s *Store) tryElect(ctx context.Context, key, id string) (meta.Leadership, *registration, error) {
	for {
		r, err := s.register(ctx, key, []byte(id))
		if err == nil {
			return r, nil, nil
		}
		if !errors.Is(err, meta.ErrConflict) {
			return nil, nil, err
		}
		s.mu.RLock()
		holder := s.ephemeral[key]
		_, exists := s.entries[key]
		s.mu.RUnlock()
		if holder != nil {
			return nil, holder, nil
		}
		if exists {
			return nil, nil, fmt.Errorf("metalocal: %q is a plain key, no office: %w", key, err)
		}
	}
}
