package group

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthouse/posthouse/engine/group/assignor"
	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// lab is a coordinator that leads all of an offsets topic of one partition, with
// the log in memory. It runs in a bubble of synctest, which is its clock.
type lab struct {
	t        testing.TB
	c        *Coordinator
	log      *memoryLog
	im       *meta.Image
	settings Settings
	config   GroupConfig
	mu       sync.Mutex // see publish
}

// publish makes what the test has done known to timers and loads: between them
// and the test the bubble is the only order, which the race detector does not see.
// It is called before the test sleeps or waits.
func (l *lab) publish() {
	l.mu.Lock()
	//lint:ignore SA2001 the edge is all that is wanted
	l.mu.Unlock()
}

// settle waits until nothing moves any more.
func (l *lab) settle() {
	l.publish()
	synctest.Wait()
}

// sleep lets time pass.
func (l *lab) sleep(d time.Duration) {
	l.publish()
	time.Sleep(d)
	synctest.Wait()
}

// Submit implements Executor.
func (l *lab) Submit(fn func()) {
	go func() {
		l.publish()
		fn()
	}()
}

// afterFunc is time.AfterFunc for a Coordinator.
func (l *lab) afterFunc(d time.Duration, fn func()) Timer {
	return time.AfterFunc(d, func() {
		l.mu.Lock()
		defer l.mu.Unlock() // the next one sees what this one has done
		fn()
	})
}

// memoryLog is the offsets topic's one partition.
type memoryLog struct {
	batches []record.Batch
	held    []func() // appends that wait for release
	hold    bool
	fail    error // of the next appends
}

func (l *memoryLog) Append(_ int32, _ record.LeaderEpoch, b record.Batch, done func(error)) {
	end := func() {
		if l.fail != nil {
			done(l.fail)
			return
		}
		l.batches = append(l.batches, b)
		done(nil)
	}
	if l.hold {
		l.held = append(l.held, end)
		return
	}
	end()
}

// release ends the appends that were held.
func (l *memoryLog) release() {
	l.hold = false
	held := l.held
	l.held = nil
	for _, end := range held {
		end()
	}
}

func (l *memoryLog) Scan(_ context.Context, _ int32, _ record.LeaderEpoch, fn func(record.Batch) error) error {
	for _, b := range l.batches {
		if err := fn(b); err != nil {
			return err
		}
	}
	return nil
}

// newLab makes the topics of the given partition counts besides the offsets topic.
func newLab(t testing.TB, topics map[string]int) *lab {
	l := &lab{t: t, log: &memoryLog{}, im: meta.EmptyImage(), settings: Settings{
		InitialRebalanceDelay: 3 * time.Second, MinSessionTimeout: 6 * time.Second, MaxSessionTimeout: 30 * time.Minute,
		MaxSize: 1 << 30, OffsetMetadataMaxBytes: 4096, OffsetsRetention: 7 * 24 * time.Hour, ExpiryInterval: 10 * time.Minute,
		CommitTimeout: 5 * time.Second, BatchBytesMax: 1 << 20,
		ConsumerEnabled: true, ConsumerHeartbeatInterval: 5 * time.Second, ConsumerSessionTimeout: 45 * time.Second,
		ConsumerMaxSize: 1 << 30, ConsumerAssignors: []string{"uniform", "range"}, ConsumerMigration: "bidirectional",
		ConsumerRegexRefreshInterval: 10 * time.Minute,
	}}
	l.setFeature(1)
	l.setTopic(OffsetsTopic, 1)
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		l.setTopic(name, topics[name])
	}
	l.start()
	return l
}

// start makes a coordinator, which loads the log.
func (l *lab) start() {
	l.c = New(Config{
		NodeID: 1, Log: l.log, Executor: l, AfterFunc: l.afterFunc,
		Image:       func() *meta.Image { return l.im },
		Settings:    func() *Settings { return &l.settings },
		GroupConfig: func(string) GroupConfig { return l.config },
	})
	l.c.Lead(0, 1)
}

// restart is the end of one coordinator and the start of another, of a later
// leadership: appends that were held never happen.
func (l *lab) restart() {
	l.c.Close()
	l.log.held, l.log.hold = nil, false
	l.start()
}

// setFeature sets the level of group.version.
func (l *lab) setFeature(level int16) {
	im := *l.im
	im.Features = map[string]int16{"group.version": level}
	l.im = &im
}

// setTopic makes a topic, changes its partition count, or with none deletes it.
func (l *lab) setTopic(name string, partitions int) {
	im := *l.im
	im.Revision++
	im.Topics, im.TopicsByID = maps.Clone(im.Topics), maps.Clone(im.TopicsByID)
	if im.Topics == nil {
		im.Topics, im.TopicsByID = make(map[string]*meta.Topic), make(map[record.TopicID]*meta.Topic)
	}
	old := im.Topics[name]
	t := &meta.Topic{Name: name}
	if old != nil {
		t.ID = old.ID
	} else {
		binary.BigEndian.PutUint64(t.ID[8:], uint64(im.Revision))
	}
	for range partitions {
		t.Partitions = append(t.Partitions, meta.Partition{Leader: 1})
	}
	im.Topics[name], im.TopicsByID[t.ID] = t, t
	if partitions == 0 {
		delete(im.Topics, name)
		delete(im.TopicsByID, t.ID)
	}
	if old == nil || partitions == 0 {
		im.Names = slices.Sorted(maps.Keys(im.Topics))
	}
	l.im = &im
	if l.c != nil {
		l.c.ImageChanged(l.im)
	}
}

var labClient = Client{ClientID: "client", Host: "/127.0.0.1", Version: 1}

// beat sends a heartbeat and returns the answer, nil if there is none yet.
func (l *lab) beat(q *kmsg.ConsumerGroupHeartbeatRequest) *kmsg.ConsumerGroupHeartbeatResponse {
	q.Version = 1
	var got *kmsg.ConsumerGroupHeartbeatResponse
	l.c.ConsumerGroupHeartbeat(q, labClient, func(r *kmsg.ConsumerGroupHeartbeatResponse) { got = r })
	return got
}

// claim is a request's list of what a member owns.
func (l *lab) claim(a assignor.Assignment) []kmsg.ConsumerGroupHeartbeatRequestTopic {
	out := []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	for _, t := range a {
		out = append(out, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: t.Topic, Partitions: t.Partitions})
	}
	return out
}

// describe is a group as ConsumerGroupDescribe tells of it, in text.
func (l *lab) describe(group string) string {
	q := kmsg.NewPtrConsumerGroupDescribeRequest()
	q.Version, q.Groups = 1, []string{group}
	g := l.c.ConsumerGroupDescribe(q, labClient).Groups[0]
	if g.ErrorCode != 0 {
		return codeName(g.ErrorCode) + " " + valueOf(g.ErrorMessage)
	}
	text := fmt.Sprintf("%s epoch %d target %d %s", g.State, g.Epoch, g.AssignmentEpoch, g.AssignorName)
	for _, m := range g.Members {
		text += fmt.Sprintf("\n%s epoch %d", m.MemberID, m.MemberEpoch)
		if m.InstanceID != nil {
			text += " instance " + *m.InstanceID
		}
		if m.MemberType == memberTypeClassic {
			text += " classic"
		}
		text += fmt.Sprintf(" has %s of %s", namedAssignment(m.Assignment), namedAssignment(m.TargetAssignment))
	}
	return text
}

func namedAssignment(a kmsg.Assignment) string {
	parts := []string{}
	for _, t := range a.TopicPartitions {
		parts = append(parts, t.Topic+fmt.Sprint(t.Partitions))
	}
	slices.Sort(parts)
	return "{" + strings.Join(parts, " ") + "}"
}

func codeName(code int16) string {
	if code == 0 {
		return "ok"
	}
	if err, ok := kerr.ErrorForCode(code).(*kerr.Error); ok {
		return err.Message
	}
	return fmt.Sprint(code)
}
