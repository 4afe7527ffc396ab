package messages

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// line is a record as a line of JSON. What produce --json reads is what consume
// --json writes: text that is UTF-8 stands as it is, other bytes in base64
// under a name of their own, null is null.
type line struct {
	Topic       string       `json:"topic,omitempty"`
	Partition   *int32       `json:"partition,omitempty"`
	Offset      *int64       `json:"offset,omitempty"`
	Timestamp   *timestamp   `json:"timestamp,omitempty"`
	LeaderEpoch *int32       `json:"leaderEpoch,omitempty"`
	Key         *payload     `json:"key"`
	KeyBytes    []byte       `json:"keyBase64,omitempty"`
	Value       *payload     `json:"value"`
	ValueBytes  []byte       `json:"valueBase64,omitempty"`
	Headers     []headerLine `json:"headers,omitempty"`
}

type headerLine struct {
	Key        string   `json:"key"`
	Value      *payload `json:"value"`
	ValueBytes []byte   `json:"valueBase64,omitempty"`
}

// payload is text in JSON; a value that is no string stands for its own JSON.
type payload string

func (p *payload) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		return json.Unmarshal(data, (*string)(p))
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, data); err != nil {
		return err
	}
	*p = payload(compact.String())
	return nil
}

// timestamp is milliseconds; RFC 3339 is read too.
type timestamp int64

func (t *timestamp) UnmarshalJSON(data []byte) error {
	if data[0] != '"' {
		if json.Unmarshal(data, (*int64)(t)) != nil {
			return errors.New("timestamp: want milliseconds or a time such as 2024-05-01T12:30:00Z")
		}
		return nil
	}
	var when time.Time
	if err := json.Unmarshal(data, &when); err != nil {
		return fmt.Errorf("timestamp %s: want milliseconds or a time such as 2024-05-01T12:30:00Z", data)
	}
	*t = timestamp(when.UnixMilli())
	return nil
}

// choose gives a field in one form or the other.
func choose(text *payload, raw []byte) []byte {
	switch {
	case raw != nil:
		return raw
	case text != nil:
		return []byte(*text)
	}
	return nil
}

// split is the inverse of choose.
func split(b []byte) (*payload, []byte) {
	if b == nil || !utf8.Valid(b) {
		return nil, b
	}
	p := payload(b)
	return &p, nil
}

// parseLine reads one record. Its partition is noPartition where none is named.
func parseLine(text []byte) (*kgo.Record, error) {
	var l line
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&l); err != nil {
		return nil, err
	}
	if decoder.More() {
		return nil, errors.New("more than one JSON value on the line")
	}
	r := &kgo.Record{Key: choose(l.Key, l.KeyBytes), Value: choose(l.Value, l.ValueBytes), Partition: noPartition}
	if l.Partition != nil {
		if *l.Partition < 0 {
			return nil, fmt.Errorf("partition %d", *l.Partition)
		}
		r.Partition = *l.Partition
	}
	if l.Timestamp != nil {
		r.Timestamp = time.UnixMilli(int64(*l.Timestamp))
	}
	for _, h := range l.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: choose(h.Value, h.ValueBytes)})
	}
	return r, nil
}

// formatLine is the line of a record that was consumed.
func formatLine(r *kgo.Record) ([]byte, error) {
	when := timestamp(r.Timestamp.UnixMilli())
	l := line{Topic: r.Topic, Partition: &r.Partition, Offset: &r.Offset, Timestamp: &when, LeaderEpoch: &r.LeaderEpoch}
	l.Key, l.KeyBytes = split(r.Key)
	l.Value, l.ValueBytes = split(r.Value)
	for _, h := range r.Headers {
		out := headerLine{Key: h.Key}
		out.Value, out.ValueBytes = split(h.Value)
		l.Headers = append(l.Headers, out)
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(&l)
	return b.Bytes(), err
}
