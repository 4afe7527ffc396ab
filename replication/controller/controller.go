// Package controller owns every write to the cluster's store: topics, their
// ids, partitions and configs, broker registrations, leader epochs, producer
// ids. On a single node it is always in office.
//
// Each operation is a step over the current image: look, decide, write one
// guarded transaction, move the image on, tell the subscribers. Nothing is
// done on disks here: directories follow the image (replication.Manager), so a
// crash between a commit and its directories leaves nothing half done that the
// next start would not finish.
package controller

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/posthouse/posthouse/engine/config"
	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage"
	"github.com/posthouse/posthouse/storage/record"
)

// maxAttempts bounds how often a step is decided anew because somebody else
// changed the store. The controller is its only writer, so once is rare.
const maxAttempts = 5

// Config is what a Controller works with. Store, NodeID, Logger, Clock and
// Broker are required.
type Config struct {
	Store  meta.Store
	NodeID int32
	// ClusterID is what this node's log directories say they belong to; empty
	// if they are new.
	ClusterID string
	Logger    *slog.Logger
	Clock     storage.Clock
	// Broker gives the broker's configs under an image: topic defaults, partition
	// and replica counts.
	Broker func(*meta.Image) *config.Broker
	// Seed makes placement and topic ids reproducible in tests; 0 is random.
	Seed uint64
}

// Controller writes the store. Its methods may be called from any goroutine
// that may sleep, never from a loop. Errors for clients are *record.Error or
// *kerr.Error; anything else is trouble with the store.
type Controller struct {
	cfg   Config
	image atomic.Pointer[meta.Image]

	mu          sync.Mutex // one step at a time; held across the store's writes
	office      meta.Leadership
	stale       bool // the store may hold more than the image shows
	subscribers []func(old, next *meta.Image)
	random      *mathrand.Rand

	producerIDs producerIDs
	sweptMs     atomic.Int64 // when leftovers were last looked for
}

// New makes a controller with an empty image. Call Start before all else.
func New(cfg Config) *Controller {
	c := &Controller{cfg: cfg}
	seed := cfg.Seed
	if seed == 0 {
		seed = mathrand.Uint64()
	}
	c.random = mathrand.New(mathrand.NewPCG(seed, 0))
	c.image.Store(meta.EmptyImage())
	return c
}

// Image is the cluster as of the last committed step.
func (c *Controller) Image() *meta.Image { return c.image.Load() }

// Subscribe calls fn, in order, for every image after the current one. fn runs
// inside the step that made it: it must not call the controller's writing
// methods, and it should not wait.
func (c *Controller) Subscribe(fn func(old, next *meta.Image)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subscribers = append(c.subscribers, fn)
}

// Start takes office, gives the cluster its id if it has none, registers this
// broker under a new epoch, and forgets leftovers of old topics. A store of
// another cluster than the log directories' is an error that names both.
func (c *Controller) Start(ctx context.Context, self meta.Broker) error {
	office, err := c.cfg.Store.Elect(ctx, meta.OfficeController, strconv.Itoa(int(c.cfg.NodeID)))
	if err != nil {
		return fmt.Errorf("controller: taking office: %w", err)
	}
	c.mu.Lock()
	c.office, c.stale = office, true
	c.mu.Unlock()
	self.ID = c.cfg.NodeID
	err = c.step(ctx, func(im *meta.Image) (*plan, error) {
		p := &plan{}
		if err := c.planCluster(im, p); err != nil {
			return nil, err
		}
		return p, c.planRegistration(ctx, im, p, self)
	})
	if err != nil {
		return err
	}
	return c.sweepLeftovers(ctx)
}

// planCluster gives the cluster an id: the directories' own, or a random one.
func (c *Controller) planCluster(im *meta.Image, p *plan) error {
	switch want := c.cfg.ClusterID; {
	case im.ClusterID == "":
		id := cmp.Or(want, newClusterID())
		p.put(im, meta.KeyCluster, meta.Encode(&meta.ClusterValue{ID: id, CreatedMs: c.nowMs()}))
	case want != "" && want != im.ClusterID:
		return fmt.Errorf("controller: the metadata store belongs to cluster.id=%s, the log directories to cluster.id=%s", im.ClusterID, want)
	}
	return nil
}

// newClusterID is a random UUID in Kafka's form that no tool takes for a flag.
func newClusterID() string {
	for {
		var id [16]byte
		if _, err := rand.Read(id[:]); err != nil {
			panic("BUG: crypto/rand failed: " + err.Error())
		}
		if s := base64.RawURLEncoding.EncodeToString(id[:]); s[0] != '-' {
			return s
		}
	}
}

// Close resigns. The store is the caller's to close.
func (c *Controller) Close(ctx context.Context) error {
	c.mu.Lock()
	office := c.office
	c.office = nil
	c.mu.Unlock()
	if office == nil {
		return nil
	}
	if err := office.Resign(ctx); err != nil && !errors.Is(err, meta.ErrLost) && !errors.Is(err, meta.ErrClosed) {
		return fmt.Errorf("controller: resigning: %w", err)
	}
	return nil
}

func (c *Controller) nowMs() int64 { return int64(c.cfg.Clock.Now()) }

// topicID makes an id; seeded controllers make the same ones again.
func (c *Controller) topicID() record.TopicID {
	if c.cfg.Seed == 0 {
		return record.NewTopicID()
	}
	for {
		var id record.TopicID
		for i := range id {
			id[i] = byte(c.random.UintN(256))
		}
		if id.String()[0] != '-' && id != (record.TopicID{15: 1}) && !id.IsZero() {
			return id
		}
	}
}
