package group

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthouse/posthouse/engine/group/assignor"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var rewriteScenarios = flag.Bool("rewrite", false, "write what happens into the scenarios of testdata")

// TestConsumerScenarios plays testdata/consumer/*.txt: lines that begin with > are
// commands (scenario.run), what follows is what they print.
func TestConsumerScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/consumer/*.txt")
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
				s := &scenario{lab: newLab(t, nil), members: make(map[string]*scenarioMember)}
				s.settle()
				for line := range strings.Lines(string(text)) {
					switch {
					case strings.HasPrefix(line, ">"):
						got.WriteString(line)
						if out := s.anonymous(s.run(strings.Fields(line[1:]))); out != "" {
							got.WriteString(out + "\n")
						}
					case strings.HasPrefix(line, "#") || line == "\n":
						got.WriteString(line)
					}
				}
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

// diffLines marks the lines that differ.
func diffLines(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	out := ""
	for i := range max(len(w), len(g)) {
		a, b := "", ""
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a == b {
			out += "  " + a + "\n"
		} else {
			out += "- " + a + "\n+ " + b + "\n"
		}
	}
	return out
}

// scenario is a lab and its members, who remember what they were told.
type scenario struct {
	*lab
	members map[string]*scenarioMember
}

type scenarioMember struct {
	id       string
	epoch    int32
	assigned assignor.Assignment
	before   assignor.Assignment // what it was assigned before that
	protocol string
}

// anonymous puts the names of members for the ids that they were given.
func (s *scenario) anonymous(text string) string {
	for name, m := range s.members {
		if m.id != name {
			text = strings.ReplaceAll(text, m.id, name)
		}
	}
	lines := strings.Split(text, "\n")
	if len(lines) > 1 {
		slices.Sort(lines[1:]) // members come in order of their ids
	}
	return strings.Join(lines, "\n")
}

func (s *scenario) member(name string) *scenarioMember {
	m := s.members[name]
	if m == nil {
		m = &scenarioMember{id: name}
		s.members[name] = m
	}
	return m
}

// run runs one command:
//
//	topic NAME N           a topic of N partitions; 0 deletes it
//	beat MEMBER [K=V…]     ConsumerGroupHeartbeat; keys below, and epoch=, instance=, id=
//	    topics=a,b regex=R assignor=A rack=R timeout=MS
//	    own=same: says that it owns what it was assigned last; own=none; own=old: what before that
//	join MEMBER [topics=a,b own=… instance=I v=N protocols=range,cooperative]   JoinGroup
//	sync MEMBER | heartbeat MEMBER | leave MEMBER
//	commit MEMBER TOPIC PARTITION [epoch=N]      OffsetCommit v9
//	fetch MEMBER [epoch=N]                       OffsetFetch v9
//	describe | list | classic                    the group, the groups, DescribeGroups
//	wait DURATION | restart | hold | release | fail CODE
//	set KEY VALUE                                a setting
func (s *scenario) run(f []string) string {
	var name string
	keys := make(map[string]string)
	for _, word := range f[1:] {
		if k, v, ok := strings.Cut(word, "="); ok {
			keys[k] = v
		} else if name == "" {
			name = word
		}
	}
	switch f[0] {
	case "topic":
		n, _ := strconv.Atoi(f[2])
		s.setTopic(name, n)
	case "beat":
		return s.heartbeat(s.member(name), keys)
	case "join":
		return s.join(s.member(name), keys)
	case "sync", "heartbeat", "leave":
		return s.classic(f[0], s.member(name), keys)
	case "commit":
		return s.commit(s.member(name), f[2], f[3], keys)
	case "fetch":
		return s.fetch(s.member(name), keys)
	case "describe":
		return s.lab.describe("g")
	case "list":
		resp := s.c.ListGroups(kmsg.NewPtrListGroupsRequest(), labClient)
		out := []string{}
		for _, g := range resp.Groups {
			out = append(out, g.Group+" "+g.GroupType+" "+g.GroupState+" "+g.ProtocolType)
		}
		return strings.Join(out, "\n")
	case "classic":
		q := kmsg.NewPtrDescribeGroupsRequest()
		q.Version, q.Groups = 6, []string{"g"}
		g := s.c.DescribeGroups(q, labClient).Groups[0]
		return fmt.Sprintf("%s %s %s %d members", codeName(g.ErrorCode), g.State, g.Protocol, len(g.Members))
	case "wait":
		d, err := time.ParseDuration(name)
		if err != nil {
			s.t.Fatal(err)
		}
		s.sleep(d)
	default:
		return s.control(f)
	}
	return ""
}

// control runs the commands that concern the lab.
func (s *scenario) control(f []string) string {
	switch f[0] {
	case "restart":
		s.restart()
		s.settle()
	case "hold":
		s.log.hold = true
	case "release":
		s.log.release()
		s.settle()
	case "fail":
		s.log.fail = nil
		if len(f) > 1 {
			code, _ := strconv.Atoi(f[1])
			s.log.fail = kerr.ErrorForCode(int16(code))
		}
	case "set":
		n, _ := strconv.Atoi(f[2])
		switch f[1] {
		case "interval":
			s.settings.ConsumerAssignmentInterval = time.Duration(n) * time.Millisecond
		case "size":
			s.settings.ConsumerMaxSize = n
		case "policy":
			s.settings.ConsumerMigration = f[2]
		case "feature":
			s.setFeature(int16(n))
		default:
			s.t.Fatalf("unknown setting %q", f[1])
		}
	default:
		s.t.Fatalf("unknown command %q", f[0])
	}
	return ""
}

func list(keys map[string]string, key string) []string {
	v, ok := keys[key]
	if !ok {
		return nil
	}
	return slices.DeleteFunc(strings.Split(v, ","), func(s string) bool { return s == "" })
}

func optional(keys map[string]string, key string) *string {
	if v, ok := keys[key]; ok {
		return &v
	}
	return nil
}

func number(keys map[string]string, key string, otherwise int32) int32 {
	if v, ok := keys[key]; ok {
		n, _ := strconv.Atoi(v)
		return int32(n)
	}
	return otherwise
}

func (s *scenario) heartbeat(m *scenarioMember, keys map[string]string) string {
	q := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	q.Group, q.MemberID, q.MemberEpoch = "g", m.id, number(keys, "epoch", m.epoch)
	q.InstanceID, q.RackID, q.ServerAssignor = optional(keys, "instance"), optional(keys, "rack"), optional(keys, "assignor")
	q.SubscribedTopicNames, q.SubscribedTopicRegex = list(keys, "topics"), optional(keys, "regex")
	q.RebalanceTimeoutMillis = number(keys, "timeout", -1)
	switch {
	case q.MemberEpoch == 0:
		m.assigned = nil
		q.Topics = s.claim(nil)
		q.RebalanceTimeoutMillis = number(keys, "timeout", 60000)
	case keys["own"] == "same":
		q.Topics = s.claim(m.assigned)
	case keys["own"] == "old":
		q.Topics = s.claim(m.before)
	case keys["own"] == "none":
		q.Topics = s.claim(nil)
	}
	q.Version = 1
	text := "no answer yet"
	s.c.ConsumerGroupHeartbeat(q, labClient, func(r *kmsg.ConsumerGroupHeartbeatResponse) { text = s.told(m, r) })
	s.settle()
	return text
}

// told notes what a heartbeat, maybe one that waited, was answered.
func (s *scenario) told(m *scenarioMember, r *kmsg.ConsumerGroupHeartbeatResponse) string {
	if r.ErrorCode != 0 {
		return codeName(r.ErrorCode) + ": " + valueOf(r.ErrorMessage)
	}
	m.epoch = r.MemberEpoch
	text := fmt.Sprintf("epoch %d", r.MemberEpoch)
	if r.MemberEpoch >= 0 {
		text += fmt.Sprintf(" interval %d", r.HeartbeatIntervalMillis)
	}
	if r.Assignment != nil {
		m.before, m.assigned = m.assigned, nil
		for _, t := range r.Assignment.Topics {
			m.assigned = append(m.assigned, assignor.TopicPartitions{Topic: t.TopicID, Partitions: t.Partitions})
		}
		text += " gets " + s.named(m.assigned)
	}
	return text
}

// named is an assignment with topic names.
func (s *scenario) named(a assignor.Assignment) string {
	return namedAssignment(describeAssignment(s.im, a))
}
