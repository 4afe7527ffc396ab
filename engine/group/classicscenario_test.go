package group

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestClassicScenarios plays testdata/classic/*.txt: lines that begin with > are
// commands (story.run), what follows is what they print, and what was answered
// meanwhile to those who waited.
func TestClassicScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/classic/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenarios", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			synctest.Test(t, func(t *testing.T) {
				s := &story{lab: newLab(t, map[string]int{"t": 4, "u": 2}), out: &got, members: make(map[string]*storyMember)}
				s.settle()
				for line := range strings.Lines(string(text)) {
					switch {
					case strings.HasPrefix(line, ">"):
						got.WriteString(line)
						s.run(strings.Fields(line[1:]))
						s.settle()
					case strings.HasPrefix(line, "#") || line == "\n":
						got.WriteString(line)
					}
				}
				s.out = new(bytes.Buffer)
				s.c.Close()
			})
			if *rewriteScenarios {
				if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got.String() != string(text) {
				t.Errorf("%s: got\n%s", file, diffLines(string(text), got.String()))
			}
		})
	}
}

// story is a run of one file.
type story struct {
	*lab
	out     *bytes.Buffer
	members map[string]*storyMember
	shown   int // batches of the log that records has shown
}

// storyMember is a member as its client knows it.
type storyMember struct {
	name       string
	id         string
	generation int32
}

// options are the arguments of the form key=value.
type options map[string]string

func (o options) string(key, otherwise string) string {
	if v, ok := o[key]; ok {
		return v
	}
	return otherwise
}

func (o options) int(key string, otherwise int) int {
	if v, ok := o[key]; ok {
		n, err := strconv.Atoi(v)
		if err != nil {
			panic(err)
		}
		return n
	}
	return otherwise
}

func (o options) millis(key string, otherwise time.Duration) int32 {
	d := otherwise
	if v, ok := o[key]; ok {
		var err error
		if d, err = time.ParseDuration(v); err != nil {
			panic(err)
		}
	}
	return int32(d.Milliseconds())
}

// optional is nil without the key.
func (o options) optional(key string) *string {
	if v, ok := o[key]; ok {
		return &v
	}
	return nil
}

func (s *story) printf(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

// member finds a member by its name.
func (s *story) member(name string) *storyMember {
	m := s.members[name]
	if m == nil {
		m = &storyMember{name: name, generation: -1}
		s.members[name] = m
	}
	return m
}

// named puts members' names in place of their ids.
func (s *story) named(id string) string {
	for _, name := range slices.Sorted(maps.Keys(s.members)) {
		if m := s.members[name]; m.id == id && id != "" {
			return name
		}
	}
	if len(id) > 36 {
		return "(a new id)"
	}
	return strconv.Quote(id)
}

// storyCommands are what a line can say.
var storyCommands = map[string]func(*story, []string, options){
	"join": (*story).join, "sync": (*story).syncGroup, "heartbeat": (*story).heartbeat, "leave": (*story).leave,
	"commit": (*story).commit, "fetch": (*story).fetch, "describe": (*story).describeGroups, "list": (*story).list,
	"delete": (*story).deleteGroup, "delete-offsets": (*story).deleteOffsets, "wait": (*story).wait, "set": (*story).set,
	"restart": func(s *story, _ []string, _ options) { s.restart() },
	"resign":  func(s *story, _ []string, _ options) { s.c.Resign(0) },
	"hold":    func(s *story, _ []string, _ options) { s.log.hold = true },
	"release": func(s *story, _ []string, _ options) { s.log.release() },
	"fail":    (*story).fail, "records": (*story).records, "topic": (*story).topic, "stats": (*story).stats,
}

func (s *story) run(words []string) {
	var args []string
	o := options{}
	for _, w := range words[1:] {
		if key, value, ok := strings.Cut(w, "="); ok {
			o[key] = value
		} else {
			args = append(args, w)
		}
	}
	command := storyCommands[words[0]]
	if command == nil {
		s.t.Fatalf("no command %q", words[0])
	}
	command(s, args, o)
}

// group is the group that a command is about.
func (o options) group() string { return o.string("group", "g") }

// join NAME [v=9] [protocols=range:x,sticky:y] [session=10s] [rebalance=60s]
// [instance=i] [id=] [type=consumer] [topics=t,u]
func (s *story) join(args []string, o options) {
	m := s.member(args[0])
	q := kmsg.NewPtrJoinGroupRequest()
	q.Version = int16(o.int("v", 9))
	q.Group, q.ProtocolType, q.InstanceID = o.group(), o.string("type", "consumer"), o.optional("instance")
	q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = o.millis("session", 10*time.Second), o.millis("rebalance", time.Minute)
	q.MemberID = o.string("id", m.id)
	for p := range strings.SplitSeq(o.string("protocols", "range"), ",") {
		name, data, _ := strings.Cut(p, ":")
		meta := kmsg.NewConsumerMemberMetadata()
		meta.Topics, meta.UserData = strings.Split(o.string("topics", "t"), ","), []byte(data)
		if name != "" {
			q.Protocols = append(q.Protocols, kmsg.JoinGroupRequestProtocol{Name: name, Metadata: meta.AppendTo(nil)})
		}
	}
	answered := false
	s.c.JoinGroup(q, labClient, func(r *kmsg.JoinGroupResponse) {
		answered = true
		s.joined(m, r)
	})
	s.settle()
	if !answered {
		s.printf("%s waits", m.name)
	}
}

func (s *story) joined(m *storyMember, r *kmsg.JoinGroupResponse) {
	if r.ErrorCode != 0 {
		s.printf("%s join: %s", m.name, codeName(r.ErrorCode))
		if r.ErrorCode == kerr.MemberIDRequired.Code {
			m.id = r.MemberID
		}
		if r.ErrorCode == kerr.UnknownMemberID.Code {
			m.id = ""
		}
		return
	}
	m.id, m.generation = r.MemberID, r.Generation
	text := fmt.Sprintf("%s joined: generation %d %s/%s leader %s", m.name, r.Generation, valueOf(r.ProtocolType), valueOf(r.Protocol), s.named(r.LeaderID))
	if len(r.Members) > 0 {
		text += ", members"
		for _, other := range r.Members {
			text += " " + s.named(other.MemberID)
			if other.InstanceID != nil {
				text += "(" + *other.InstanceID + ")"
			}
		}
	}
	if r.SkipAssignment {
		text += ", keeps the assignment"
	}
	s.printf("%s", text)
}

// sync NAME [v=5] [gen=N] [id=] [instance=] [assign=a:x,b:y] [type=] [protocol=]
func (s *story) syncGroup(args []string, o options) {
	m := s.member(args[0])
	q := kmsg.NewPtrSyncGroupRequest()
	q.Version, q.Group, q.MemberID, q.InstanceID = int16(o.int("v", 5)), o.group(), o.string("id", m.id), o.optional("instance")
	q.Generation = int32(o.int("gen", int(m.generation)))
	if q.Version >= 5 {
		q.ProtocolType, q.Protocol = kmsg.StringPtr(o.string("type", "consumer")), kmsg.StringPtr(o.string("protocol", "range"))
	}
	if assign := o.string("assign", ""); assign != "" {
		for a := range strings.SplitSeq(assign, ",") {
			name, value, _ := strings.Cut(a, ":")
			q.GroupAssignment = append(q.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: s.member(name).id, MemberAssignment: []byte(value)})
		}
	}
	answered := false
	s.c.SyncGroup(q, labClient, func(r *kmsg.SyncGroupResponse) {
		answered = true
		if r.ErrorCode != 0 {
			s.printf("%s sync: %s", m.name, codeName(r.ErrorCode))
			return
		}
		s.printf("%s synced: %q", m.name, r.MemberAssignment)
	})
	s.settle()
	if !answered {
		s.printf("%s waits", m.name)
	}
}

// heartbeat NAME [gen=N] [id=] [instance=]
func (s *story) heartbeat(args []string, o options) {
	m := s.member(args[0])
	q := kmsg.NewPtrHeartbeatRequest()
	q.Version, q.Group, q.MemberID, q.InstanceID = 4, o.group(), o.string("id", m.id), o.optional("instance")
	q.Generation = int32(o.int("gen", int(m.generation)))
	s.printf("%s", codeName(s.c.Heartbeat(q, labClient).ErrorCode))
}

// leave [NAME…] [v=5] [instance=i,j] [id=]
func (s *story) leave(args []string, o options) {
	q := kmsg.NewPtrLeaveGroupRequest()
	q.Version, q.Group = int16(o.int("v", 5)), o.group()
	for _, name := range args {
		id := o.string("id", s.member(name).id)
		q.MemberID = id
		q.Members = append(q.Members, kmsg.LeaveGroupRequestMember{MemberID: id})
	}
	if list := o.string("instance", ""); list != "" {
		for i := range strings.SplitSeq(list, ",") {
			q.Members = append(q.Members, kmsg.LeaveGroupRequestMember{InstanceID: &i})
		}
	}
	s.c.LeaveGroup(q, labClient, func(r *kmsg.LeaveGroupResponse) {
		text := "left: " + codeName(r.ErrorCode)
		if q.Version >= 3 {
			for _, m := range r.Members {
				text += fmt.Sprintf(", %s %s", s.named(m.MemberID), codeName(m.ErrorCode))
			}
		}
		s.printf("%s", text)
	})
}

// commit [NAME] TOPIC-PARTITION:OFFSET… [gen=N] [id=] [v=9] [note=]
func (s *story) commit(args []string, o options) {
	q := kmsg.NewPtrOffsetCommitRequest()
	q.Version, q.Group, q.RetentionTimeMillis = int16(o.int("v", 9)), o.group(), int64(o.millis("retention", -time.Millisecond))
	q.InstanceID = o.optional("instance")
	if name := args[0]; !strings.Contains(name, ":") {
		m := s.member(name)
		q.MemberID, q.Generation = m.id, m.generation
		args = args[1:]
	} else {
		q.Generation = -1
	}
	q.MemberID, q.Generation = o.string("id", q.MemberID), int32(o.int("gen", int(q.Generation)))
	for _, a := range args {
		tp, at, _ := strings.Cut(a, ":")
		dir, err := record.ParseDir(tp)
		if err != nil {
			s.t.Fatal(err)
		}
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Metadata = dir.Partition, o.optional("note")
		p.Offset, _ = strconv.ParseInt(at, 10, 64)
		q.Topics = append(q.Topics, kmsg.OffsetCommitRequestTopic{Topic: dir.Topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}})
	}
	s.c.OffsetCommit(q, labClient, func(r *kmsg.OffsetCommitResponse) {
		text := "committed:"
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				text += fmt.Sprintf(" %s-%d %s", t.Topic, p.Partition, codeName(p.ErrorCode))
			}
		}
		s.printf("%s", text)
	})
}

// fetch [TOPIC-PARTITION…] [v=9]: all offsets without an argument.
func (s *story) fetch(args []string, o options) {
	q := kmsg.NewPtrOffsetFetchRequest()
	q.Version = int16(o.int("v", 9))
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.MemberEpoch = o.group(), -1
	for _, a := range args {
		dir, err := record.ParseDir(a)
		if err != nil {
			s.t.Fatal(err)
		}
		g.Topics = append(g.Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: dir.Topic, Partitions: []int32{dir.Partition}})
	}
	q.Groups = []kmsg.OffsetFetchRequestGroup{g}
	r := s.c.OffsetFetch(q, labClient).Groups[0]
	if r.ErrorCode != 0 {
		s.printf("%s", codeName(r.ErrorCode))
		return
	}
	text := "offsets:"
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			text += fmt.Sprintf(" %s-%d:%d", t.Topic, p.Partition, p.Offset)
		}
	}
	s.printf("%s", text)
}

// describe [v=6]
func (s *story) describeGroups(_ []string, o options) {
	q := kmsg.NewPtrDescribeGroupsRequest()
	q.Version, q.Groups = int16(o.int("v", 6)), []string{o.group()}
	g := s.c.DescribeGroups(q, labClient).Groups[0]
	if g.ErrorCode != 0 {
		s.printf("%s %s", codeName(g.ErrorCode), valueOf(g.ErrorMessage))
		return
	}
	s.printf("%s %q %q", g.State, g.ProtocolType, g.Protocol)
	for _, m := range g.Members {
		instance := ""
		if m.InstanceID != nil {
			instance = " instance " + *m.InstanceID
		}
		s.printf("  %s of %s at %s%s: %q", s.named(m.MemberID), m.ClientID, m.ClientHost, instance, m.MemberAssignment)
	}
}

// list [states=a,b] [types=a,b]
func (s *story) list(_ []string, o options) {
	q := kmsg.NewPtrListGroupsRequest()
	q.Version = 5
	if states := o.string("states", ""); states != "" {
		q.StatesFilter = strings.Split(states, ",")
	}
	if types := o.string("types", ""); types != "" {
		q.TypesFilter = strings.Split(types, ",")
	}
	r := s.c.ListGroups(q, labClient)
	if r.ErrorCode != 0 {
		s.printf("%s", codeName(r.ErrorCode))
	}
	for _, g := range r.Groups {
		s.printf("%s %s %s %q", g.Group, g.GroupState, g.GroupType, g.ProtocolType)
	}
}

func (s *story) deleteGroup(_ []string, o options) {
	q := kmsg.NewPtrDeleteGroupsRequest()
	q.Groups = []string{o.group()}
	s.c.DeleteGroups(q, labClient, func(r *kmsg.DeleteGroupsResponse) { s.printf("deleted: %s", codeName(r.Groups[0].ErrorCode)) })
}

// delete-offsets TOPIC-PARTITION…
func (s *story) deleteOffsets(args []string, o options) {
	q := kmsg.NewPtrOffsetDeleteRequest()
	q.Group = o.group()
	for _, a := range args {
		dir, err := record.ParseDir(a)
		if err != nil {
			s.t.Fatal(err)
		}
		q.Topics = append(q.Topics, kmsg.OffsetDeleteRequestTopic{Topic: dir.Topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: dir.Partition}}})
	}
	s.c.OffsetDelete(q, labClient, func(r *kmsg.OffsetDeleteResponse) {
		text := "deleted: " + codeName(r.ErrorCode)
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				text += fmt.Sprintf(" %s-%d %s", t.Topic, p.Partition, codeName(p.ErrorCode))
			}
		}
		s.printf("%s", text)
	})
}

// wait DURATION [beating=a,b]: with heartbeats of some every second.
func (s *story) wait(args []string, o options) {
	d, err := time.ParseDuration(args[0])
	if err != nil {
		s.t.Fatal(err)
	}
	if beating := o.string("beating", ""); beating != "" {
		for ; d > time.Second; d -= time.Second {
			s.sleep(time.Second)
			for name := range strings.SplitSeq(beating, ",") {
				m := s.member(name)
				q := kmsg.NewPtrHeartbeatRequest()
				q.Group, q.MemberID, q.Generation = o.group(), m.id, m.generation
				s.c.Heartbeat(q, labClient)
			}
		}
	}
	s.sleep(d)
}

// set KEY=VALUE…
func (s *story) set(_ []string, o options) {
	next := s.settings
	for _, key := range slices.Sorted(maps.Keys(o)) {
		switch key {
		case "max-size":
			next.MaxSize = o.int(key, 0)
		case "initial-delay":
			next.InitialRebalanceDelay = time.Duration(o.millis(key, 0)) * time.Millisecond
		case "retention":
			next.OffsetsRetention = time.Duration(o.millis(key, 0)) * time.Millisecond
		case "metadata-max":
			next.OffsetMetadataMaxBytes = o.int(key, 0)
		default:
			s.t.Fatalf("no setting %s", key)
		}
	}
	s.settings = next
}

// fail [ERROR]: what becomes of appends from now on.
func (s *story) fail(args []string, _ options) {
	s.log.fail = nil
	for code := range int16(100) {
		if len(args) > 0 && codeName(code) == args[0] {
			s.log.fail = kerr.TypedErrorForCode(code)
		}
	}
}

// records shows what was written since the last time.
func (s *story) records([]string, options) {
	for _, b := range s.log.batches[s.shown:] {
		text := "batch:"
		if err := b.Each(func(r record.Record) bool {
			text += " " + s.recordText(r.Key, r.Value)
			return true
		}); err != nil {
			s.t.Fatal(err)
		}
		s.printf("%s", text)
	}
	s.shown = len(s.log.batches)
}

func (s *story) recordText(key, value []byte) string {
	switch kind := binary.BigEndian.Uint16(key); kind {
	case keyOffset:
		var k kmsg.OffsetCommitKey
		if err := k.ReadFrom(key); err != nil {
			s.t.Fatal(err)
		}
		name := fmt.Sprintf("%s/%s-%d", k.Group, k.Topic, k.Partition)
		if value == nil {
			return "[offset " + name + " is gone]"
		}
		var v kmsg.OffsetCommitValue
		if err := v.ReadFrom(value); err != nil {
			s.t.Fatal(err)
		}
		return fmt.Sprintf("[offset %s:%d v%d]", name, v.Offset, v.Version)
	case keyGroupMetadata:
		var k kmsg.GroupMetadataKey
		if err := k.ReadFrom(key); err != nil {
			s.t.Fatal(err)
		}
		if value == nil {
			return "[group " + k.Group + " is gone]"
		}
		var v kmsg.GroupMetadataValue
		if err := v.ReadFrom(value); err != nil {
			s.t.Fatal(err)
		}
		text := fmt.Sprintf("[group %s generation %d %q %q leader %s", k.Group, v.Generation, v.ProtocolType, valueOf(v.Protocol), s.named(valueOf(v.Leader)))
		for _, m := range v.Members {
			text += fmt.Sprintf(" %s:%q", s.named(m.MemberID), m.Assignment)
		}
		return text + "]"
	default:
		return fmt.Sprintf("[key kind %d]", kind)
	}
}

// topic NAME PARTITIONS: none deletes it.
func (s *story) topic(args []string, _ options) {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		s.t.Fatal(err)
	}
	s.setTopic(args[0], n)
}

func (s *story) stats([]string, options) {
	for _, g := range s.c.Stats() {
		s.printf("%s %s %s, %d members, offsets %v", g.Group, g.Protocol, g.State, g.Members, g.Offsets)
	}
	s.printf("%+v", s.c.Counters())
}
