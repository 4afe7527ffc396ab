// Package broker puts the parts of a node together: log directories, metadata
// store, controller, partitions, engine and network, in the order in which
// they need each other; and takes them apart again in the opposite order.
//
// Everything that a start can be refused for comes before the first log is
// opened: a directory in use, an identity that does not match, a damaged
// store, a port that is taken. Such a start leaves the directories as it found
// them, the mark of a clean stop included.
package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/posthouse/posthouse/engine"
	"github.com/posthouse/posthouse/engine/admin"
	"github.com/posthouse/posthouse/engine/config"
	"github.com/posthouse/posthouse/engine/metrics"
	"github.com/posthouse/posthouse/engine/quota"
	"github.com/posthouse/posthouse/netio"
	"github.com/posthouse/posthouse/replication"
	"github.com/posthouse/posthouse/replication/controller"
	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/replication/meta/metalocal"
	"github.com/posthouse/posthouse/storage"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
)

// Version is stamped by the linker; a plain `go build` leaves it to what the
// toolchain recorded of the module.
var Version = builtVersion()

func builtVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

const (
	// metaDirName is where in a log directory meta.dir is by default.
	metaDirName = "__meta"
	// metaFile is the metadata store's file in meta.dir.
	metaFile = "meta.db"
	// workersMax bounds the goroutines that may sleep in file system calls.
	workersMax = 16
	// drainTimeout is how long a stop waits for what is in flight.
	drainTimeout = 2 * time.Second
	// metaTimeout bounds the metadata writes of a start, on a disk that hangs.
	metaTimeout = 30 * time.Second
	// tickInterval is the pulse of checkpoints and of storage's upkeep.
	tickInterval = time.Second
)

// Options is what a Broker is started with.
type Options struct {
	Config *config.Broker
	Logger *slog.Logger
	// LogLevel is the level of Logger, which clients may change; nil: they may
	// not.
	LogLevel *slog.LevelVar
	// TopicConfigs are overrides, by topic, for the partition directories that
	// an empty store adopts: Kafka keeps them elsewhere.
	TopicConfigs map[string]map[string]string
	// LoadProgress hears how many logs are open; from any goroutine, may be nil.
	LoadProgress func(done, total int)
}

// Broker is a node that runs.
type Broker struct {
	static *config.Broker
	logger *slog.Logger

	workers    *Workers
	storage    *storage.Manager
	store      meta.Store
	controller *controller.Controller
	replicas   *replication.Manager
	engine     *engine.Engine
	net        *netio.Server
	effective  effectiveConfig
	quotas     *quota.Manager
	limits     limits
	http       *httpServer
	scraper    scraper
	flushes    metrics.SharedHistogram
	dirs       lately[[]storage.DirInfo]
	loopStall  time.Duration // after which an event loop counts as stuck

	listeners   []config.Listener // as advertised, ports known
	stopLoading context.CancelFunc
	loaded      chan struct{} // closed when every log was opened or failed
	loadErr     error         // set before loaded is closed
	loadDone    atomic.Int64  // logs open
	loadTotal   atomic.Int64  // logs found; zero while they are looked for
	stopping    atomic.Bool
	tickStop    context.CancelFunc
	tickDone    chan struct{}
}

// wallClock is the system's clock in milliseconds.
type wallClock struct{}

func (wallClock) Now() record.Timestamp { return record.Timestamp(time.Now().UnixMilli()) }

// Start brings a node up. When it returns clients are served; partitions
// answer as their logs are opened, and Loaded tells when all are. ctx bounds
// the start alone. After an error nothing of the node is left: no lock, port,
// goroutine or file.
func Start(ctx context.Context, opts Options) (*Broker, error) {
	b := &Broker{
		static:    opts.Config,
		logger:    opts.Logger,
		workers:   NewWorkers(workersMax),
		effective: effectiveConfig{static: opts.Config, logger: opts.Logger},
		loaded:    make(chan struct{}),
		loopStall: loopStall,
	}
	if err := b.start(ctx, opts); err != nil {
		b.abandon()
		return nil, err
	}
	var loading context.Context
	loading, b.stopLoading = context.WithCancel(context.Background())
	go b.load(loading, opts.LoadProgress)
	b.startTicks()
	return b, nil
}

// start takes every step that may refuse the start. The ports are bound before
// the logs are opened, and serve at once: until a partition's log is open its
// clients are told to try again.
func (b *Broker) start(ctx context.Context, opts Options) error {
	if err := b.openStorage(); err != nil {
		return err
	}
	if err := b.openStore(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, metaTimeout)
	defer cancel()
	if err := b.startController(ctx, opts.TopicConfigs); err != nil {
		return err
	}
	b.wire(opts.LogLevel)
	if err := b.startNetwork(ctx); err != nil {
		return err
	}
	return b.startHTTP()
}

func (b *Broker) openStorage() (err error) {
	for _, dir := range b.static.LogDirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("log directory: %w", err)
		}
	}
	b.storage, err = storage.OpenManager(storage.ManagerConfig{
		FS:                     vfs.OS(),
		Dirs:                   b.static.LogDirs,
		NodeID:                 b.static.NodeID,
		Executor:               b.workers,
		Clock:                  wallClock{},
		Logger:                 b.logger,
		RecoveryThreads:        int(b.static.RecoveryThreadsPerDataDir),
		DefaultLogConfig:       replication.NewTopicConfig(&b.static.TopicDefaults).Log,
		ProducerIDExpirationMs: int64(b.static.ProducerIDExpirationMs),
		OnFlush:                b.flushes.Observe,
		DirtyPressing:          vfs.NewDirtyGauge().Pressing,
	})
	b.dirs.ask = b.storage.Dirs
	return err
}

func (b *Broker) openStore() error {
	dir := b.static.Meta.Dir
	if err := b.refuseOtherStores(); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("meta.dir: %w", err)
	}
	store, err := metalocal.Open(filepath.Join(dir, metaFile))
	if err != nil {
		return err
	}
	b.store = store
	return nil
}

// refuseOtherStores keeps a start from taking an empty or outdated store for
// the one that knows the topics: the default of meta.dir moves when log.dirs
// is put in another order.
func (b *Broker) refuseOtherStores() error {
	own := filepath.Join(b.static.Meta.Dir, metaFile)
	for _, logDir := range b.static.LogDirs {
		dir := filepath.Join(logDir, metaDirName)
		other, err := os.Stat(filepath.Join(dir, metaFile))
		if err != nil {
			continue
		}
		if info, err := os.Stat(own); err == nil && os.SameFile(info, other) {
			continue
		}
		return fmt.Errorf("%s holds a metadata store, but meta.dir is %s: set meta.dir to the one that knows the topics, and move the other out of the log directories",
			dir, b.static.Meta.Dir)
	}
	return nil
}

// startController takes office, settles the cluster's id, and adopts what a
// Kafka broker left in the log directories.
func (b *Broker) startController(ctx context.Context, topicConfigs map[string]map[string]string) error {
	b.controller = controller.New(controller.Config{
		Store:     b.store,
		NodeID:    b.static.NodeID,
		ClusterID: b.storage.ClusterID(),
		Logger:    b.logger,
		Clock:     wallClock{},
		Broker:    b.effective.under,
	})
	if err := b.controller.Start(ctx, b.registration(b.static.AdvertisedListeners)); err != nil {
		return err
	}
	if b.storage.ClusterID() == "" {
		if err := b.storage.SetClusterID(b.controller.Image().ClusterID); err != nil {
			return err
		}
	}
	found, err := b.storage.Scan()
	if err != nil {
		return err
	}
	b.tellUnclean(found)
	return b.controller.AdoptTopics(ctx, found, topicConfigs)
}

// tellUnclean says which log directories the last stop left to a recovery.
func (b *Broker) tellUnclean(found []storage.FoundLog) {
	logs := make(map[string]int)
	for _, f := range found {
		logs[filepath.Dir(f.Dir)]++
	}
	for _, dir := range slices.Sorted(maps.Keys(logs)) {
		if b.storage.Unclean(dir) {
			b.logger.Info("the last stop was not clean: checking what lies past the recovery points", "dir", dir, "logs", logs[dir])
		}
	}
}

func (b *Broker) registration(listeners []config.Listener) meta.Broker {
	self := meta.Broker{ID: b.static.NodeID, Rack: b.static.Rack}
	for _, l := range listeners {
		self.Listeners = append(self.Listeners, meta.Endpoint{Name: l.Name, Host: l.Host, Port: l.Port, Protocol: l.Protocol})
	}
	return self
}

// wire connects partitions, handlers and engine.
func (b *Broker) wire(logLevel *slog.LevelVar) {
	b.quotas = newQuotas(b.static)
	b.replicas = replication.NewManager(replication.ManagerConfig{
		Storage:              b.storage,
		NodeID:               b.static.NodeID,
		Executor:             b.workers,
		Clock:                wallClock{},
		Logger:               b.logger,
		Broker:               b.effective.under,
		Epochs:               b.controller,
		Listed:               func(im *meta.Image) { b.engine.ImageChanged(nil, im) },
		CheckpointIntervalMs: b.static.CheckpointIntervalMs(),
	})
	b.controller.Subscribe(b.replicas.Apply)
	b.engine = engine.New(engine.Config{
		NodeID:              b.static.NodeID,
		Replicas:            b.replicas,
		Image:               b.controller.Image,
		AllocateProducerIDs: b.controller.AllocateProducerIDs,
		Admin: admin.New(admin.Config{
			NodeID:     b.static.NodeID,
			Broker:     func() *config.Broker { return b.effective.under(b.controller.Image()) },
			Image:      b.controller.Image,
			Controller: b.controller,
			Replicas:   b.replicas,
			Logger:     b.logger,
			LogLevel:   logLevel,
		}),
		Quotas:            b.quotas,
		Workers:           b.workers,
		Logger:            b.logger,
		FetchMaxBytes:     b.static.FetchMaxBytes,
		FetchSessionSlots: int(b.static.FetchSessionCacheSlots),
	})
	b.controller.Subscribe(b.engine.ImageChanged)
	b.controller.Subscribe(b.follow)
}

// load opens the logs beside the network: a partition answers once its own log
// is open.
func (b *Broker) load(ctx context.Context, progress func(done, total int)) {
	defer close(b.loaded)
	b.loadErr = b.replicas.Start(ctx, b.controller.Image(), func(done, total int) {
		// Several goroutines tell: the count only rises.
		for n := b.loadDone.Load(); int64(done) > n && !b.loadDone.CompareAndSwap(n, int64(done)); n = b.loadDone.Load() {
		}
		b.loadTotal.Store(int64(total))
		if progress != nil {
			progress(done, total)
		}
	})
}

func (b *Broker) startNetwork(ctx context.Context) error {
	// What was set at run time before the last stop holds again.
	c := b.effective.under(b.controller.Image())
	server, err := netio.NewServer(netio.Config{
		Engine:              c.Netio.Engine,
		Loops:               int(c.Netio.Loops),
		BusyPoll:            time.Duration(c.Netio.BusyPollUs) * time.Microsecond,
		LoopbackCongestion:  c.Netio.LoopbackCongestionControl,
		MaxFrameBytes:       c.SocketRequestMaxBytes,
		MaxConnections:      connectionsMax(c.MaxConnections, b.logger),
		MaxConnectionsPerIP: int(c.MaxConnectionsPerIP),
		IdleTimeout:         time.Duration(c.ConnectionsMaxIdleMs) * time.Millisecond,
		RequestMemoryBytes:  c.QueuedMaxRequestBytes,
		SendBufferBytes:     int(c.SocketSendBufferBytes),
		ReceiveBufferBytes:  int(c.SocketReceiveBufferBytes),
		Workers:             b.workers,
		Observer:            b.engine,
		Logger:              b.logger,
	}, b.engine)
	if err != nil {
		return err
	}
	b.limits.mu.Lock()
	b.net = server
	b.limits.mu.Unlock()
	// Before the first connection is accepted; what changes is followed.
	b.follow(nil, b.controller.Image())
	ports := make(map[string]int32, len(c.Listeners))
	for _, l := range c.Listeners {
		address, err := server.Listen(l.Name, l.Address())
		if err != nil {
			return fmt.Errorf("listener %s: %w", l.Name, err)
		}
		ports[l.Name] = int32(address.(*net.TCPAddr).Port)
	}
	b.listeners = c.Advertise(ports)
	for _, l := range c.Listeners {
		if l.Port == 0 {
			// The registration of the start could not know this port.
			return b.controller.RegisterBroker(ctx, b.registration(b.listeners))
		}
	}
	return nil
}

func (b *Broker) startTicks() {
	ctx, cancel := context.WithCancel(context.Background())
	b.tickStop, b.tickDone = cancel, make(chan struct{})
	go func() {
		defer close(b.tickDone)
		ticker := time.NewTicker(tickInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				b.replicas.Tick()
			}
		}
	}()
}

// Loaded is closed when every log has been opened or has failed to; Err then
// says whether loading as a whole failed.
func (b *Broker) Loaded() <-chan struct{} { return b.loaded }

// Err is why the logs could not be loaded; context.Canceled when a stop came
// first. Call it after Loaded is closed or Stop has returned.
func (b *Broker) Err() error { return b.loadErr }

// Engine is the network engine that runs and why it was chosen.
func (b *Broker) Engine() (name, reason string) { return b.net.Engine() }

// Listeners are the advertised addresses, such as PLAINTEXT://127.0.0.1:9092.
func (b *Broker) Listeners() string {
	addresses := make([]string, len(b.listeners))
	for i, l := range b.listeners {
		addresses[i] = l.Name + "://" + l.Address()
	}
	return strings.Join(addresses, ",")
}

// Stop ends the node in order: no new connections, what is in flight within
// two seconds, then logs flushed and marked clean. progress hears of logs
// closed; it may be nil. An error means that the next start may have to
// recover; so does an Err that is not nil.
func (b *Broker) Stop(ctx context.Context, progress func(done, total int)) error {
	b.stopping.Store(true)
	defer b.http.stop()
	b.stopLoading()
	drain, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	if err := b.net.Shutdown(drain); err != nil {
		b.logger.Warn("connections were cut off", "err", err)
	}
	b.engine.Close()
	b.tickStop()
	<-b.tickDone
	<-b.loaded
	var errs []error
	if err := b.replicas.Close(ctx, progress); err != nil {
		errs = append(errs, fmt.Errorf("closing logs: %w", err))
	}
	if err := b.controller.Close(ctx); err != nil {
		errs = append(errs, err)
	}
	b.workers.Close()
	if err := b.store.Close(); err != nil {
		errs = append(errs, fmt.Errorf("closing the metadata store: %w", err))
	}
	return errors.Join(errs...)
}

// abandon gives back what a failed start holds. Errors on this way say nothing
// that the error of the start does not.
func (b *Broker) abandon() {
	if b.http != nil {
		b.http.stop()
	}
	if b.net != nil {
		b.net.Close()
	}
	if b.engine != nil {
		b.engine.Close()
	}
	if b.storage != nil {
		// No log was opened, so the directories keep the mark they had.
		_ = b.storage.Close(nil)
	}
	if b.controller != nil {
		_ = b.controller.Close(context.Background())
	}
	b.workers.Close()
	if b.store != nil {
		_ = b.store.Close()
	}
}
