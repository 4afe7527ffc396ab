package controller

import (
	"strings"

	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
)

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
