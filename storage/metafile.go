package storage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
)

// metaProperties is meta.properties of a log directory, version 1.
type metaProperties struct {
	ClusterID   string
	NodeID      int32
	HasNodeID   bool
	DirectoryID record.TopicID // Kafka's Uuid, zero if absent
}

// readMetaProperties reads a Java properties file as Kafka's PropertiesUtils
// writes it; false where there is none. broker.id stands for node.id in the
// files of version 0.
func readMetaProperties(fsys vfs.FS, name string) (metaProperties, bool, error) {
	data, err := fsys.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return metaProperties{}, false, nil
	}
	if err != nil {
		return metaProperties{}, false, err
	}
	p, err := parseMetaProperties(name, data)
	return p, err == nil, err
}

func parseMetaProperties(name string, data []byte) (metaProperties, error) {
	var p metaProperties
	version := ""
	for _, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			return p, fmt.Errorf("%s: line %.80q is not key=value", name, line)
		}
		key, value = strings.TrimSpace(key), unescapeProperty(strings.TrimSpace(value))
		switch key {
		case "version":
			version = value
		case "cluster.id":
			p.ClusterID = value
		case "node.id", "broker.id":
			n, err := strconv.ParseInt(value, 10, 32)
			if err != nil {
				return p, fmt.Errorf("%s: %s=%.100q is not a number", name, key, value)
			}
			p.NodeID, p.HasNodeID = int32(n), true
		case "directory.id":
			id, err := record.ParseTopicID(value)
			if err != nil {
				return p, fmt.Errorf("%s: directory.id: %w", name, err)
			}
			p.DirectoryID = id
		}
	}
	if version != "0" && version != "1" {
		return p, fmt.Errorf("%s: version=%.100q, known are 0 and 1", name, version)
	}
	return p, nil
}

// unescapeProperty undoes the backslashes that java.util.Properties puts
// before ':', '=' and the like.
func unescapeProperty(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func (p metaProperties) format() []byte {
	return fmt.Appendf(nil, "#\ncluster.id=%s\ndirectory.id=%s\nnode.id=%d\nversion=1\n",
		strings.NewReplacer(`\`, `\\`, "=", `\=`, ":", `\:`).Replace(p.ClusterID), p.DirectoryID, p.NodeID)
}

// readTopicID reads partition.metadata; the zero id where it is missing or
// empty.
func readTopicID(fsys vfs.FS, dir string) (record.TopicID, error) {
	name := join(dir, partitionMetadataName)
	data, err := fsys.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(bytes.TrimSpace(data)) == 0 {
		return record.TopicID{}, nil
	}
	if err != nil {
		return record.TopicID{}, err
	}
	return parsePartitionMetadata(name, data)
}

func parsePartitionMetadata(name string, data []byte) (record.TopicID, error) {
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	if len(lines) < 2 {
		return record.TopicID{}, corrupt(name, 0, "%d lines, want version and topic_id", len(lines))
	}
	v, ok := strings.CutPrefix(strings.TrimSpace(lines[0]), "version: ")
	if n, err := strconv.Atoi(v); !ok || err != nil || n < 0 {
		return record.TopicID{}, corrupt(name, 0, "first line %.80q, want a version", lines[0])
	}
	text, ok := strings.CutPrefix(strings.TrimSpace(lines[1]), "topic_id: ")
	if !ok {
		return record.TopicID{}, corrupt(name, 0, "second line %.80q, want a topic_id", lines[1])
	}
	id, err := record.ParseTopicID(text)
	if err == nil && id.IsZero() {
		err = errors.New("the zero id names no topic")
	}
	if err != nil {
		return record.TopicID{}, corrupt(name, 0, "topic_id %.40q: %w", text, err)
	}
	return id, nil
}

func formatTopicID(id record.TopicID) []byte {
	return fmt.Appendf(nil, "version: 0\ntopic_id: %s", id)
}

// cleanMark is .kafka_cleanshutdown. Kafka ignores the fields it does not
// know. Writer tells our own marks, whose recovery points are the ends of the
// logs, from Kafka's, where the end must be looked up.
type cleanMark struct {
	Version     int    `json:"version"`
	BrokerEpoch int64  `json:"brokerEpoch"`
	Writer      string `json:"writer,omitempty"`
}

const cleanMarkWriter = "posthouse"

// readCleanMark reports whether the directory was left in order, and by whom.
// As in Kafka the file's presence is what counts, whatever it holds.
func readCleanMark(fsys vfs.FS, dir string) (clean, ours bool, err error) {
	data, err := fsys.ReadFile(join(dir, cleanMarkName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	var m cleanMark
	if json.Unmarshal(data, &m) != nil {
		return true, false, nil
	}
	return true, m.Writer == cleanMarkWriter, nil
}

// writeCleanMark leaves the mark; ours promises that the recovery points are
// the ends of the logs.
func writeCleanMark(fsys vfs.FS, dir string, ours bool) error {
	m := cleanMark{BrokerEpoch: -1}
	if ours {
		m.Writer = cleanMarkWriter
	}
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return fsys.WriteFileAtomic(join(dir, cleanMarkName), data)
}
