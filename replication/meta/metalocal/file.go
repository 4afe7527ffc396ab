package metalocal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/posthouse/posthouse/replication/meta"
	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"
)

// The file holds one bucket of entries and one of the store's own numbers. An
// entry's value is its version (8 bytes), the CRC32C of key and value (4), and
// the value: bbolt checks its meta pages, but not its data.
var (
	bucketEntries = []byte("entries")
	bucketStore   = []byte("store")
	keyRevision   = []byte("revision")
	keyFormat     = []byte("format")
	keyCount      = []byte("count") // of entries: a lost page must not pass for a shorter list
)

const (
	formatVersion = 1
	entryHeader   = 12
	// allocBytes is how far the file grows at a time once it is larger than
	// that; bbolt's default of 16 MiB is a lot for a few topics.
	allocBytes = 1 << 20
	// reserveBytes is the space that is allocated beyond what the file has, so
	// that a node that was killed on a full disk can note its new leader epochs,
	// and with that start, and topics can be deleted to make room.
	reserveBytes = 1 << 20
	fileMode     = 0o600
	dirMode      = 0o755
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// file is the bbolt file under a store.
type file struct {
	path string
	db   *bolt.DB
}

func openFile(path string) (f *file, err error) {
	if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
		return nil, fmt.Errorf("metalocal: %w", err)
	}
	_, statErr := os.Stat(path)
	var descriptor *os.File
	defer func() {
		if err != nil && descriptor != nil {
			// A bbolt that panicked has closed nothing. Its mapping, which nobody
			// can reach any more, would keep the lock beyond the descriptor. Where
			// bbolt did close, neither call does harm.
			_ = unix.Flock(int(descriptor.Fd()), unix.LOCK_UN)
			_ = descriptor.Close()
		}
	}()
	defer guardFault(path, &err)()
	db, err := bolt.Open(path, fileMode, &bolt.Options{
		Timeout:      time.Millisecond, // one try: whoever holds it will not let go soon
		FreelistType: bolt.FreelistMapType,
		OpenFile: func(name string, flag int, perm os.FileMode) (*os.File, error) {
			f, err := os.OpenFile(name, flag, perm)
			descriptor = f
			return f, err
		},
	})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("metalocal: %s is in use by another process", path)
	case errors.As(err, new(syscall.Errno)): // no space, no right, not a file
		return nil, fmt.Errorf("metalocal: opening %s: %w", path, err)
	case err != nil:
		return nil, damaged(path, err)
	}
	db.AllocSize = allocBytes
	reserve(descriptor)
	if os.IsNotExist(statErr) {
		// The new name must survive a power cut as the contents do.
		if err := syncDir(filepath.Dir(path)); err != nil {
			return nil, errors.Join(fmt.Errorf("metalocal: %w", err), db.Close())
		}
	}
	return &file{path: path, db: db}, nil
}

// reserve allocates what the file has and reserveBytes more without changing
// its length. Where that cannot be done, a full disk is met later.
func reserve(f *os.File) {
	if info, err := f.Stat(); err == nil {
		_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, info.Size()+reserveBytes)
	}
}

func damaged(path string, err error) error {
	return fmt.Errorf("metalocal: %s cannot be used, it is damaged or no store of this program: %w", path, err)
}

// guardFault turns bbolt's panics, and faults on a mapping that is longer than
// its file, into an error: both are how a damaged file shows.
func guardFault(path string, err *error) func() {
	old := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(old)
		if r := recover(); r != nil {
			*err = damaged(path, fmt.Errorf("%v", r))
		}
	}
}

// read returns all entries and the last revision.
func (f *file) read() (entries map[string]meta.Entry, revision meta.Revision, err error) {
	defer guardFault(f.path, &err)()
	entries = map[string]meta.Entry{}
	err = f.db.View(func(tx *bolt.Tx) error {
		store := tx.Bucket(bucketStore)
		if store == nil {
			return nil // new
		}
		format, err := number(store, keyFormat)
		if err != nil {
			return err
		}
		if format != formatVersion {
			return fmt.Errorf("format %d, this program reads %d", format, formatVersion)
		}
		n, err := number(store, keyRevision)
		if err != nil {
			return err
		}
		revision = meta.Revision(n)
		bucket := tx.Bucket(bucketEntries)
		if bucket == nil {
			return errors.New("bucket of entries is missing")
		}
		if err := readEntries(bucket, revision, entries); err != nil {
			return err
		}
		if n, err = number(store, keyCount); err == nil && n != int64(len(entries)) {
			err = fmt.Errorf("%d entries found, %d were written", len(entries), n)
		}
		return err
	})
	if err != nil {
		return nil, 0, damaged(f.path, err)
	}
	return entries, revision, nil
}

func readEntries(bucket *bolt.Bucket, revision meta.Revision, entries map[string]meta.Entry) error {
	return bucket.ForEach(func(k, v []byte) error {
		e, err := decode(k, v)
		if err == nil && e.Version > meta.Version(revision) {
			err = fmt.Errorf("value of %q is newer (%d) than the store (%d)", k, e.Version, revision)
		}
		entries[e.Key] = e
		return err
	})
}

func number(b *bolt.Bucket, key []byte) (int64, error) {
	v := b.Get(key)
	if len(v) != 8 {
		return 0, fmt.Errorf("value of %q has %d bytes instead of 8", key, len(v))
	}
	return int64(binary.BigEndian.Uint64(v)), nil
}

func putNumber(b *bolt.Bucket, key []byte, n int64) error {
	return b.Put(key, binary.BigEndian.AppendUint64(nil, uint64(n)))
}

func checksum(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}

func encode(key string, value []byte, version meta.Version) []byte {
	out := make([]byte, 0, entryHeader+len(value))
	out = binary.BigEndian.AppendUint64(out, uint64(version))
	out = binary.BigEndian.AppendUint32(out, checksum([]byte(key), value))
	return append(out, value...)
}

func decode(k, v []byte) (meta.Entry, error) {
	if len(v) < entryHeader {
		return meta.Entry{}, fmt.Errorf("value of %q has %d bytes, at least %d were written", k, len(v), entryHeader)
	}
	value := append([]byte(nil), v[entryHeader:]...)
	if sum := binary.BigEndian.Uint32(v[8:]); sum != checksum(k, value) {
		return meta.Entry{}, fmt.Errorf("checksum of %q is wrong", k)
	}
	return meta.Entry{Key: string(k), Value: value, Version: meta.Version(binary.BigEndian.Uint64(v))}, nil
}

// write makes ops and the revision durable in one transaction.
func (f *file) write(revision meta.Revision, ops []meta.Op) (err error) {
	defer guardFault(f.path, &err)()
	err = f.db.Update(func(tx *bolt.Tx) error {
		store, err := tx.CreateBucketIfNotExists(bucketStore)
		if err != nil {
			return err
		}
		bucket, err := tx.CreateBucketIfNotExists(bucketEntries)
		if err != nil {
			return err
		}
		if err := putNumber(store, keyFormat, formatVersion); err != nil {
			return err
		}
		if err := putNumber(store, keyRevision, int64(revision)); err != nil {
			return err
		}
		count := int64(0)
		if store.Get(keyCount) != nil {
			if count, err = number(store, keyCount); err != nil {
				return err
			}
		}
		for _, op := range ops {
			change, err := writeOp(bucket, op, revision)
			if err != nil {
				return err
			}
			count += change
		}
		return putNumber(store, keyCount, count)
	})
	if err != nil {
		return fmt.Errorf("metalocal: writing %s: %w", f.path, err)
	}
	return nil
}

// writeOp writes one operation and returns by how much it changed the number of
// entries.
func writeOp(bucket *bolt.Bucket, op meta.Op, revision meta.Revision) (change int64, err error) {
	key := []byte(op.Key)
	existed := bucket.Get(key) != nil
	switch {
	case op.Delete && existed:
		return -1, bucket.Delete(key)
	case op.Delete:
		return 0, nil
	case !existed:
		change = 1
	}
	return change, bucket.Put(key, encode(op.Key, op.Value, meta.Version(revision)))
}

func (f *file) close() error {
	if err := f.db.Close(); err != nil {
		return fmt.Errorf("metalocal: closing %s: %w", f.path, err)
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
