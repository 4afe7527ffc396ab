package controller

import (
	"strings"

	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
)

// maxTopicName keeps <topic>-<partition>.<uuid>-delete within a file name.
const maxTopicName = 249

// metadataTopic is Kafka's own log of its metadata; a directory of that name
// in a log dir is not a topic's.
const metadataTopic = "__cluster_metadata"

// CheckTopicName refuses what Kafka refuses, in its words
// (org.apache.kafka.common.internals.Topic).
func CheckTopicName(name string) error {
	reason := ""
	switch {
	case name == "":
		reason = "the empty string is not allowed"
	case name == "." || name == "..":
		reason = "'" + name + "' is not allowed"
	case len(name) > maxTopicName:
		return record.Errorf(kerr.InvalidTopicException, "Topic name is invalid: the length of '%s' is longer than the max allowed length %d", name, maxTopicName)
	case strings.ContainsFunc(name, illegal):
		reason = "'" + name + "' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
	}
	if reason != "" {
		return record.Errorf(kerr.InvalidTopicException, "Topic name is invalid: %s", reason)
	}
	return nil
}

func illegal(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-')
}

// unify maps names that collide in metrics, where '.' becomes '_', to one.
func unify(name string) string { return strings.ReplaceAll(name, ".", "_") }

// collisions finds topics whose names differ from another's only in '.' and
// '_'.
type collisions map[string]string

func collisionsOf(im *meta.Image) collisions {
	c := collisions{}
	for _, name := range im.Names {
		c.add(name)
	}
	return c
}

func (c collisions) add(name string) {
	if strings.ContainsAny(name, "._") {
		if _, taken := c[unify(name)]; !taken {
			c[unify(name)] = name
		}
	}
}

func (c collisions) check(name string) error {
	if !strings.ContainsAny(name, "._") {
		return nil
	}
	if other, ok := c[unify(name)]; ok {
		return record.Errorf(kerr.InvalidTopicException, "Topic '%s' collides with existing topic: %s", name, other)
	}
	return nil
}
