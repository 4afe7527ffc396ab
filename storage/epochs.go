package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"sort"
	"strconv"
	"sync"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
)

// epochEntry says at which offset a leader epoch begins.
type epochEntry struct {
	epoch record.LeaderEpoch
	start record.Offset
}

// epochCache is leader-epoch-checkpoint: which leader wrote which offsets,
// Kafka's LeaderEpochFileCache (KIP-101, KIP-279). Both columns increase
// strictly. Changes in memory are immediate, the file follows by write.
type epochCache struct {
	fs   vfs.FS
	path string

	mu      sync.RWMutex // held for memory accesses only
	entries []epochEntry
	version int // counts changes

	writing sync.Mutex // serialises workers that write the file
	written int        // version of the file
}

func newEpochCache(fsys vfs.FS, dir string) *epochCache {
	return &epochCache{fs: fsys, path: join(dir, leaderEpochName)}
}

// load reads the file; a missing one is empty.
func (c *epochCache) load() error {
	data, err := c.fs.ReadFile(c.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	entries, err := parseEpochs(c.path, data)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries = entries
	return nil
}

func parseEpochs(name string, data []byte) ([]epochEntry, error) {
	var out []epochEntry
	err := parseCheckpoint(name, data, 2, func(f [][]byte) error {
		e, err := strconv.ParseInt(string(f[0]), 10, 32)
		if err != nil {
			return err
		}
		o, err := strconv.ParseInt(string(f[1]), 10, 64)
		if err != nil {
			return err
		}
		if e < 0 || o < 0 {
			return errors.New("negative epoch or offset")
		}
		next := epochEntry{record.LeaderEpoch(e), record.Offset(o)}
		if n := len(out); n > 0 && (out[n-1].epoch >= next.epoch || out[n-1].start > next.start) {
			return fmt.Errorf("after epoch %d at %d", out[n-1].epoch, out[n-1].start)
		}
		out = append(out, next)
		return nil
	})
	return out, err
}

// assign notes that an epoch begins at an offset and reports whether that is
// news. Entries that it contradicts (the same or later epochs, offsets at or
// past the start) go, as in Kafka.
func (c *epochCache) assign(e record.LeaderEpoch, start record.Offset) bool {
	if e < 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.entries)
	if n > 0 && c.entries[n-1].epoch >= e && c.entries[n-1].start <= start {
		return false // known, or older than what is known
	}
	for n > 0 && (c.entries[n-1].epoch >= e || c.entries[n-1].start >= start) {
		n--
	}
	c.entries = append(c.entries[:n], epochEntry{e, start})
	c.version++
	return true
}

func (c *epochCache) latest() record.LeaderEpoch {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if n := len(c.entries); n > 0 {
		return c.entries[n-1].epoch
	}
	return record.NoLeaderEpoch
}

// at is the epoch that wrote an offset, or NoLeaderEpoch.
func (c *epochCache) at(o record.Offset) record.LeaderEpoch {
	c.mu.RLock()
	defer c.mu.RUnlock()
	i := sort.Search(len(c.entries), func(i int) bool { return c.entries[i].start > o })
	if i == 0 {
		return record.NoLeaderEpoch
	}
	return c.entries[i-1].epoch
}

// endOffset answers OffsetForLeaderEpoch: the greatest epoch at or below the
// asked one and where it ends; (−1, −1) if the asked one is unknown and newer
// than all, or there are none. An epoch older than all ends where the first
// known one begins.
func (c *epochCache) endOffset(e record.LeaderEpoch, logEnd record.Offset) (record.LeaderEpoch, record.Offset) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	n := len(c.entries)
	if e < 0 || n == 0 || c.entries[n-1].epoch < e {
		return record.NoLeaderEpoch, -1
	}
	if c.entries[n-1].epoch == e {
		return e, logEnd
	}
	i := sort.Search(n, func(i int) bool { return c.entries[i].epoch > e }) // i < n
	if i == 0 {
		return e, c.entries[0].start
	}
	return c.entries[i-1].epoch, c.entries[i].start
}

// truncateSuffix forgets the epochs that begin at or past an offset.
func (c *epochCache) truncateSuffix(to record.Offset) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.entries)
	for n > 0 && c.entries[n-1].start >= to {
		n--
	}
	if n == len(c.entries) {
		return false
	}
	c.entries = c.entries[:n]
	c.version++
	return true
}

// truncatePrefix forgets the epochs that end at or before an offset; the one
// that spans it begins there.
func (c *epochCache) truncatePrefix(from record.Offset) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := sort.Search(len(c.entries), func(i int) bool { return c.entries[i].start > from })
	if i == 0 || i == 1 && c.entries[0].start == from {
		return false
	}
	c.entries = append(c.entries[:0], c.entries[i-1:]...)
	c.entries[0].start = from
	c.version++
	return true
}

// write brings the file up to date, durably. Worker context.
func (c *epochCache) write() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.RLock()
	version := c.version
	lines := make([]string, len(c.entries))
	for i, e := range c.entries {
		lines[i] = strconv.Itoa(int(e.epoch)) + " " + strconv.FormatInt(int64(e.start), 10)
	}
	c.mu.RUnlock()
	if version == c.written {
		return nil
	}
	if err := c.fs.WriteFileAtomic(c.path, formatCheckpoint(lines)); err != nil {
		return err
	}
	c.written = version
	return nil
}
