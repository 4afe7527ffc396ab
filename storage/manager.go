package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
)

// Manager holds all logs of a node: its log directories, their locks,
// identities, checkpoints and clean marks, and the partition directories in
// them.
//
// Nothing here starts a goroutine that outlives its call: work goes to the
// Executor, and timed work waits for Tick and Checkpoint, which the owner calls.
type Manager struct {
	cfg  ManagerConfig
	dirs []*logDir

	mu        sync.RWMutex // held for memory accesses only
	clusterID string
	logs      map[record.TopicPartition]*Log
	loading   map[record.TopicPartition]bool // being created, loaded or deleted
	settled   *sync.Cond                     // on mu's write side: loading shrank

	laterMu    sync.Mutex
	later      []removal
	unrolled   []*Log // whose last roll a full disk held up
	counts     managerCounts
	lastIdle   atomic.Int64 // when Tick closed idle files last, ms
	lastExpiry atomic.Int64 // when Tick looked for expired producers last, ms

	producerIDExpirationMs atomic.Int64
}

// removal is what waits to be unlinked.
type removal struct {
	at    record.Timestamp
	names []string
}

// logDir is one of log.dirs.
type logDir struct {
	path    string
	id      record.TopicID
	lock    io.Closer
	clean   bool // left in order by the last stop
	trusted bool // by a stop of ours
	state   dirState

	writing sync.Mutex // serialises checkpoint writes; guards the following
	// The checkpoints as they were at the start, without partitions that are gone.
	recovery, start, replication map[record.TopicPartition]record.Offset
	// stale says that the checkpoint files may name logs that are gone, so they
	// must be rewritten before a log of that name is made anew: its bytes would
	// pass for durable ones.
	stale map[record.TopicPartition]bool

	startMu      sync.Mutex // guards the group commit of log starts
	startRunning bool
	startWaiting []chan error
}

// dirState is how far Load came with a directory.
type dirState int8

const (
	unread     dirState = iota // its marks and files are as the last stop left them
	incomplete                 // some log was not loaded
	complete
)

// inPlace runs jobs in the caller's goroutine.
type inPlace struct{}

func (inPlace) Submit(job func()) { job() }

type systemClock struct{}

func (systemClock) Now() record.Timestamp { return record.Timestamp(time.Now().UnixMilli()) }

// OpenManager locks the log directories, making those that are missing, and
// reads their identities and checkpoints. A directory that belongs to another
// cluster or node, or is in use by another process, is an error that names the
// file and what it says. No partition is opened yet: see Scan and Load.
func OpenManager(cfg ManagerConfig) (*Manager, error) {
	if len(cfg.Dirs) == 0 {
		return nil, errors.New("storage: no log directory")
	}
	cfg.setDefaults()
	m := &Manager{cfg: cfg, clusterID: cfg.ClusterID,
		logs: map[record.TopicPartition]*Log{}, loading: map[record.TopicPartition]bool{}}
	m.settled = sync.NewCond(&m.mu)
	m.SetProducerIDExpiration(cfg.ProducerIDExpirationMs)
	for _, path := range cfg.Dirs {
		d, err := m.openDir(path)
		if err != nil {
			return nil, errors.Join(err, m.unlock())
		}
		m.dirs = append(m.dirs, d)
	}
	if m.clusterID != "" {
		if err := m.SetClusterID(m.clusterID); err != nil {
			return nil, errors.Join(err, m.unlock())
		}
	}
	return m, nil
}

// SetProducerIDExpiration changes how long an idle producer is remembered, in
// milliseconds. Any goroutine.
func (m *Manager) SetProducerIDExpiration(ms int64) { m.producerIDExpirationMs.Store(ms) }

func (c *ManagerConfig) setDefaults() {
	if c.FS == nil {
		c.FS = vfs.OS()
	}
	if c.Executor == nil {
		c.Executor = inPlace{}
	}
	if c.Clock == nil {
		c.Clock = systemClock{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.RecoveryThreads <= 0 {
		c.RecoveryThreads = 2
	}
	if c.ProducerIDExpirationMs <= 0 {
		c.ProducerIDExpirationMs = 24 * 3600 * 1000
	}
	if c.IdleCloseMs <= 0 {
		c.IdleCloseMs = 10 * 60 * 1000
	}
}

func (m *Manager) openDir(path string) (d *logDir, err error) {
	fsys := m.cfg.FS
	if err := makeDurable(fsys, path); err != nil {
		return nil, err
	}
	lock, err := fsys.Lock(join(path, lockName))
	if err != nil {
		return nil, fmt.Errorf("log directory %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	d = &logDir{path: path, lock: lock, stale: map[record.TopicPartition]bool{}}
	if err := m.identify(d); err != nil {
		return nil, err
	}
	if d.clean, d.trusted, err = readCleanMark(fsys, path); err != nil {
		return nil, err
	}
	for name, to := range map[string]*map[record.TopicPartition]record.Offset{
		recoveryPointName: &d.recovery, logStartName: &d.start, replicationName: &d.replication,
	} {
		if *to, err = m.readCheckpoint(d, join(path, name)); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// makeDurable makes a directory and the parents that are missing, and has all
// their names survive a power cut.
func makeDurable(fsys vfs.FS, path string) error {
	var missing []string
	for p := filepath.Clean(path); ; p = filepath.Dir(p) {
		ok, err := fsys.Exists(p)
		if err != nil {
			return err
		}
		if ok || p == filepath.Dir(p) {
			break
		}
		missing = append(missing, p)
	}
	if err := fsys.MkdirAll(path); err != nil {
		return err
	}
	for _, p := range missing {
		if err := fsys.SyncDir(filepath.Dir(p)); err != nil {
			return err
		}
	}
	return nil
}

// readCheckpoint reads one of a directory's checkpoints. A damaged one counts
// as empty, which costs time, not data; the stop that left it is then no clean
// one.
func (m *Manager) readCheckpoint(d *logDir, name string) (map[record.TopicPartition]record.Offset, error) {
	offsets, err := readOffsets(m.cfg.FS, name)
	var damage *CorruptionError
	if errors.As(err, &damage) {
		m.cfg.Logger.Warn("checking everything: a checkpoint is damaged", "err", err)
		d.trusted = false
		return map[record.TopicPartition]record.Offset{}, nil
	}
	return offsets, err
}

// identify compares meta.properties with who we are.
func (m *Manager) identify(d *logDir) error {
	name := join(d.path, metaPropertiesName)
	p, found, err := readMetaProperties(m.cfg.FS, name)
	if err != nil {
		return err
	}
	if !found {
		d.id = record.NewTopicID()
		return nil
	}
	d.id = p.DirectoryID
	if d.id.IsZero() {
		d.id = record.NewTopicID()
	}
	if p.HasNodeID && p.NodeID != m.cfg.NodeID {
		return fmt.Errorf("%s: node.id=%d, but this is node %d", name, p.NodeID, m.cfg.NodeID)
	}
	if m.clusterID == "" {
		m.clusterID = p.ClusterID
	}
	if p.ClusterID != "" && p.ClusterID != m.clusterID {
		return fmt.Errorf("%s: cluster.id=%s, but this cluster is %s", name, p.ClusterID, m.clusterID)
	}
	return nil
}

// ClusterID is the cluster that the directories belong to, "" while they are
// new and belong to none.
func (m *Manager) ClusterID() string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.clusterID
}

// SetClusterID makes new directories belong to a cluster. Those that belong to
// another one are an error.
func (m *Manager) SetClusterID(id string) error {
	for _, d := range m.dirs {
		name := join(d.path, metaPropertiesName)
		old, found, err := readMetaProperties(m.cfg.FS, name)
		if err != nil {
			return err
		}
		if found && old.ClusterID != "" && old.ClusterID != id {
			return fmt.Errorf("%s: cluster.id=%s, but this cluster is %s", name, old.ClusterID, id)
		}
		p := metaProperties{ClusterID: id, NodeID: m.cfg.NodeID, HasNodeID: true, DirectoryID: d.id}
		if found && old == p {
			continue
		}
		if err := m.cfg.FS.WriteFileAtomic(name, p.format()); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clusterID = id
	return nil
}

func (m *Manager) unlock() error {
	var errs []error
	for _, d := range m.dirs {
		errs = append(errs, d.lock.Close())
	}
	return errors.Join(errs...)
}

// Get is the log of a partition, nil if there is none or it is not loaded yet.
func (m *Manager) Get(tp record.TopicPartition) *Log {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.logs[tp]
}

// Logs are all logs, by name.
func (m *Manager) Logs() []*Log {
	m.mu.RLock()
	out := make([]*Log, 0, len(m.logs))
	for _, l := range m.logs {
		out = append(out, l)
	}
	m.mu.RUnlock()
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i].tp, out[j].tp
		return a.Topic < b.Topic || a.Topic == b.Topic && a.Partition < b.Partition
	})
	return out
}

// Unclean says that a directory was not left in order by the last stop.
func (m *Manager) Unclean(dir string) bool {
	for _, d := range m.dirs {
		if d.path == dir {
			return !d.clean
		}
	}
	return false
}

// DirInfo describes one log directory.
type DirInfo struct {
	Path        string
	DirectoryID record.TopicID // Kafka's directory.id
	Total, Free int64          // of its file system, bytes
	Err         error          // why the sizes are not known
}

// Dirs describes the log directories.
func (m *Manager) Dirs() []DirInfo {
	out := make([]DirInfo, len(m.dirs))
	for i, d := range m.dirs {
		free, total, err := m.cfg.FS.DiskFree(d.path)
		out[i] = DirInfo{Path: d.path, DirectoryID: d.id, Total: total, Free: free, Err: err}
	}
	return out
}

// claim keeps others from creating, loading or deleting a partition; it waits
// for those who do.
func (m *Manager) claim(tp record.TopicPartition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.loading[tp] {
		m.settled.Wait()
	}
	m.loading[tp] = true
}

func (m *Manager) unclaim(tp record.TopicPartition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.loading, tp)
	m.settled.Broadcast()
}

func (m *Manager) put(l *Log) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.logs[l.tp] = l
}

// ctxErr is the context's cause.
func ctxErr(ctx context.Context) error { return context.Cause(ctx) }
