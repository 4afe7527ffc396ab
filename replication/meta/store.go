// Package meta is the cluster's coordination: a small versioned key-value
// store ([Store]), what Posthouse keeps in it (keys.go, schema.go), and the
// immutable picture of the cluster that every broker reads ([Image]).
//
// A Store knows nothing of topics. Its contract is small enough for one bbolt
// file (metalocal), for etcd and for ZooKeeper; package metatest holds the
// contract as a suite that runs against each of them.
package meta

import (
	"context"
	"errors"
	"time"
)

var (
	// ErrConflict answers a Txn one of whose guards no longer holds; nothing
	// of it was written. Read again and decide anew.
	ErrConflict = errors.New("meta: a guarded key has changed")
	// ErrNotFound answers a Get, Update or Remove of a key that is not there.
	ErrNotFound = errors.New("meta: no such key")
	// ErrClosed answers every call on a closed store.
	ErrClosed = errors.New("meta: store is closed")
	// ErrCompacted answers a Watch from a revision whose successors the store
	// no longer remembers. List again and watch from there.
	ErrCompacted = errors.New("meta: revision is no longer held")
	// ErrTooLarge answers a Txn of more than MaxTxnOps operations.
	ErrTooLarge = errors.New("meta: transaction has too many operations")
	// ErrLost answers a use of a leadership or registration that has ended.
	ErrLost = errors.New("meta: office or registration is lost")
)

// MaxTxnOps is the number of operations that every store accepts in one Txn:
// with as many guards and a few more it stays below the 128 that an etcd which
// was not told otherwise takes.
const MaxTxnOps = 100

// Revision orders everything that a store has committed: each Txn that writes
// has a higher one than all before it, across restarts too.
type Revision int64

// Version identifies one value of one key: it is the Revision of the Txn that
// wrote it, so that whoever wrote knows it without reading again, and a key
// that is deleted and made again never repeats a version. Zero means "not
// there".
type Version int64

// Entry is a key with its value. Value belongs to the store: do not change it.
type Entry struct {
	Key     string
	Value   []byte
	Version Version
}

// Guard makes a Txn conditional: Key must still have exactly Version; zero
// means that it must not exist.
type Guard struct {
	Key     string
	Version Version
}

// Op is one write of a Txn: a put, or a delete when Delete is set. Deleting a
// key that is not there is not an error.
type Op struct {
	Key    string
	Value  []byte
	Delete bool
}

// Put makes the operation that sets key to value.
func Put(key string, value []byte) Op { return Op{Key: key, Value: value} }

// Delete makes the operation that removes key.
func Delete(key string) Op { return Op{Key: key, Delete: true} }

// Change is one key's part of an Event. Entry.Version is zero for a deletion,
// and Entry.Value then nil.
type Change struct {
	Entry
	Deleted bool
}

// Event is one committed Txn as a watcher sees it: all of its changes under the
// watched prefix, in the order of its operations. Events of one watch arrive in
// order of Revision, each once.
type Event struct {
	Revision Revision
	Changes  []Change
}

// Store is a linearisable key-value store. Keys are slash-separated paths of
// printable ASCII, neither beginning nor ending with a slash; values are small (all of one Txn
// together below 1 MiB). All methods may be called from any goroutine and may
// block: never from an event loop.
type Store interface {
	// Get returns ErrNotFound when there is no such key.
	Get(ctx context.Context, key string) (Entry, error)
	// List returns the entries whose keys begin with prefix, in key order, as
	// they were at the returned revision. Watch(prefix, revision) continues.
	List(ctx context.Context, prefix string) ([]Entry, Revision, error)
	// Txn applies all ops, or, when a guard fails, none (ErrConflict). Once it
	// returns nil the writes survive a crash. No key may occur twice in ops.
	// Any other error is ambiguous: the writes may or may not have happened.
	Txn(ctx context.Context, guards []Guard, ops []Op) (Revision, error)
	// Watch delivers every Txn after revision from that touches prefix. The
	// channel closes when ctx ends, when the store closes, or when the watcher
	// fell too far behind: then list again. ErrCompacted as above.
	Watch(ctx context.Context, prefix string, from Revision) (<-chan Event, error)
	// Elect waits until id holds office, or ctx ends.
	Elect(ctx context.Context, office, id string) (Leadership, error)
	// Register puts key, guarded by its absence (ErrConflict), and keeps it
	// while this process lives and is connected; ttl bounds how long the key
	// outlives it. Stores round ttl up to what they can keep.
	Register(ctx context.Context, key string, value []byte, ttl time.Duration) (Registration, error)
	// Ready returns nil when a write could commit now.
	Ready(ctx context.Context) error
	// Close ends watches, offices and registrations. It may be called twice.
	Close() error
}

// Leadership is the holding of an office.
type Leadership interface {
	// Guard, put into a Txn, makes the Txn fail with ErrConflict once the
	// office is lost: a deposed controller cannot write.
	Guard() Guard
	// Done is closed when the office is lost or resigned.
	Done() <-chan struct{}
	// Resign gives the office up; the next candidate gets it at once.
	Resign(ctx context.Context) error
}

// Registration is an ephemeral key.
type Registration interface {
	// Entry is the key as it was registered.
	Entry() Entry
	// Done is closed when the key is gone: revoked, expired, or the store lost.
	Done() <-chan struct{}
	// Revoke removes the key now.
	Revoke(ctx context.Context) error
}

// Create writes key, which must not exist (ErrConflict).
func Create(ctx context.Context, s Store, key string, value []byte) (Revision, error) {
	return s.Txn(ctx, []Guard{{Key: key}}, []Op{Put(key, value)})
}

// Update writes key if it still has version (ErrConflict).
func Update(ctx context.Context, s Store, key string, version Version, value []byte) (Revision, error) {
	return s.Txn(ctx, []Guard{{Key: key, Version: version}}, []Op{Put(key, value)})
}

// Remove deletes key if it still has version (ErrConflict).
func Remove(ctx context.Context, s Store, key string, version Version) (Revision, error) {
	return s.Txn(ctx, []Guard{{Key: key, Version: version}}, []Op{Delete(key)})
}
