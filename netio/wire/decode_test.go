package wire

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

// body builds messages by hand, in the order of Kafka's message definitions.
type body []byte

func (b body) i8(v int8) body       { return append(b, byte(v)) }
func (b body) i16(v int16) body     { return appendInt16(b, v) }
func (b body) i32(v int32) body     { return appendInt32(b, v) }
func (b body) i64(v int64) body     { return appendInt64(b, v) }
func (b body) raw(s string) body    { return append(b, s...) }
func (b body) str(s string) body    { return appendString(b, s, false) }
func (b body) cstr(s string) body   { return appendString(b, s, true) }
func (b body) uv(v uint32) body     { return appendUvarint(b, v) }
func (b body) tag(n, s uint32) body { return appendTag(b, n, s) }

// produceTo is a Produce request up to the count of topics.
func produceHead(flexible bool) body {
	if flexible {
		return body{}.uv(0).i16(-1).i32(1000)
	}
	return body{}.i16(-1).i16(-1).i32(1000)
}

// fetchHead is a Fetch request up to the count of topics.
func fetchHead(version int16) body {
	var b body
	if version <= 14 {
		b = b.i32(-1)
	}
	b = b.i32(500).i32(1).i32(1 << 20).i8(0)
	if version >= 7 {
		b = b.i32(0).i32(-1)
	}
	return b
}

func TestDecodeErrors(t *testing.T) {
	fetch := func() codec { return new(FetchRequest) }
	fetched := func() codec { return new(FetchResponse) }
	produce := func() codec { return new(ProduceRequest) }
	produced := func() codec { return new(ProduceResponse) }
	fetchPartition := fetchHead(18).uv(2).raw("0123456789abcdef").uv(2).i32(0).i32(-1).i64(0).i32(-1).i64(-1).i32(1)
	cases := []struct {
		name    string
		decoder func() codec
		version int16
		body    body
		err     string
	}{
		{"version too old", produce, 2, nil, "ProduceRequest v2: field RequestApiVersion at byte 0: version not served"},
		{"version too new", fetch, 19, nil, "FetchRequest v19: field RequestApiVersion at byte 0: version not served"},
		{"response version", fetched, 3, nil, "FetchResponse v3: field RequestApiVersion at byte 0: version not served"},
		{"produced version", produced, 14, nil, "ProduceResponse v14: field RequestApiVersion at byte 0: version not served"},
		{"empty", produce, 3, nil, "ProduceRequest v3: field TransactionalId at byte 0: needs 2 bytes, 0 remain"},
		{"null topics", produce, 3, produceHead(false).i32(-1),
			"ProduceRequest v3: field TopicData at byte 8: null, but the field is not nullable"},
		{"null compact topics", produce, 9, produceHead(true).uv(0),
			"ProduceRequest v9: field TopicData at byte 7: null, but the field is not nullable"},
		{"null topic name", produce, 9, produceHead(true).uv(2).uv(0).uv(1).uv(0).uv(0),
			"ProduceRequest v9: field TopicData.Name at byte 8: null, but the field is not nullable"},
		{"count beyond the frame", produce, 3, produceHead(false).i32(math.MaxInt32).raw("123456"),
			"ProduceRequest v3: field TopicData at byte 8: count 2147483647 is more than the remaining 6 bytes can hold"},
		{"compact count beyond the frame", produce, 13, produceHead(true).uv(math.MaxInt32).raw("0123456789abcdef12"),
			"ProduceRequest v13: field TopicData at byte 7: count 2147483646 is more than the remaining 18 bytes can hold"},
		{"negative compact count", produce, 13, produceHead(true).uv(math.MaxUint32).raw("0123456789abcdef12"),
			"ProduceRequest v13: field TopicData at byte 7: null, but the field is not nullable"},
		{"one partition too many", produce, 3, produceHead(false).i32(1).str("t").i32(2).i32(0).i32(-1).raw("1234567"),
			"ProduceRequest v3: field TopicData.PartitionData at byte 15: count 2 is more than the remaining 15 bytes can hold"},
		{"records longer than the frame", produce, 3, produceHead(false).i32(1).str("t").i32(1).i32(0).i32(9).raw("12345678"),
			"ProduceRequest v3: field TopicData.PartitionData.Records at byte 27: needs 9 bytes, 8 remain"},
		{"string longer than Kafka's", produce, 9, produceHead(true).uv(2).uv(32769).raw(strings.Repeat("x", 40000)),
			"ProduceRequest v9: field TopicData.Name at byte 8: invalid length 32768"},
		{"varint of six bytes", produce, 9, produceHead(true).raw("\x80\x80\x80\x80\x80\x00"),
			"ProduceRequest v9: field TopicData at byte 7: varint does not fit in 32 bits"},
		{"varint of 35 bits", produce, 9, produceHead(true).raw("\x80\x80\x80\x80\x10"),
			"ProduceRequest v9: field TopicData at byte 7: varint does not fit in 32 bits"},
		{"cut varint", produce, 9, produceHead(true).raw("\x80\x80"),
			"ProduceRequest v9: field TopicData at byte 7: needs 3 bytes, 2 remain"},
		{"tags missing", produce, 9, produceHead(true).uv(1),
			"ProduceRequest v9: field ProduceRequest tags at byte 8: needs 1 bytes, 0 remain"},
		{"tag longer than the frame", produce, 9, produceHead(true).uv(1).uv(1).tag(7, 3).raw("ab"),
			"ProduceRequest v9: field ProduceRequest tags at byte 10: needs 3 bytes, 2 remain"},
		{"tag count without end", produce, 9, produceHead(true).uv(1).uv(math.MaxUint32).tag(7, 0),
			"ProduceRequest v9: field ProduceRequest tags at byte 15: needs 1 bytes, 0 remain"},
		{"null rack", fetch, 11, fetchHead(11).i32(0).i32(0).i16(-1),
			"FetchRequest v11: field RackId at byte 33: null, but the field is not nullable"},
		{"null forgotten", fetch, 7, fetchHead(7).i32(0).i32(-1),
			"FetchRequest v7: field ForgottenTopicsData at byte 29: null, but the field is not nullable"},
		{"forgotten partitions", fetch, 7, fetchHead(7).i32(0).i32(1).str("t").i32(2).i32(0),
			"FetchRequest v7: field ForgottenTopicsData.Partitions at byte 36: count 2 is more than the remaining 4 bytes can hold"},
		{"replica state before v15", fetch, 14, fetchHead(14).uv(1).uv(1).uv(1).uv(1).tag(1, 13).i32(1).i64(2).uv(0),
			"FetchRequest v14: field FetchRequest tags at byte 29: tag 1 does not exist in this version"},
		{"directory before v17", fetch, 16, fetchHead(16).uv(2).raw(string(fetchPartition[len(fetchHead(18))+1:])).uv(1).tag(0, 16).raw("0123456789abcdef"),
			"FetchRequest v16: field Topics.Partitions tags at byte 72: tag 0 does not exist in this version"},
		{"high watermark before v18", fetch, 17, fetchHead(17).uv(2).raw(string(fetchPartition[len(fetchHead(18))+1:])).uv(1).tag(1, 8).i64(0),
			"FetchRequest v17: field Topics.Partitions tags at byte 72: tag 1 does not exist in this version"},
		{"size of a tag", fetch, 18, fetchPartition.uv(1).tag(1, 9).i64(5).uv(0),
			"FetchRequest v18: field Topics.Partitions.HighWatermark at byte 74: the tag's size of 9 bytes is not that of its content"},
		{"leader before v10", produced, 9, body{}.uv(2).cstr("t").uv(2).i32(0).i16(0).i64(0).i64(-1).i64(0).uv(1).uv(0).uv(1).tag(0, 9).i64(0).uv(0),
			"ProduceResponse v9: field Responses.PartitionResponses tags at byte 37: tag 0 does not exist in this version"},
		{"nodes before v16", fetched, 15, body{}.i32(0).i16(0).i32(0).uv(1).uv(1).tag(0, 1).uv(1),
			"FetchResponse v15: field response tags at byte 12: tag 0 does not exist in this version"},
		{"aborted transactions", fetched, 4, body{}.i32(0).i32(1).str("t").i32(1).i32(0).i16(0).i64(0).i64(0).i32(1).i32(0),
			"FetchResponse v4: field Responses.Partitions.AbortedTransactions at byte 37: count 1 is more than the remaining 4 bytes can hold"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := text(c.decoder().Decode(c.version, c.body)); got != c.err {
				t.Fatalf("error\n%s, want\n%s", got, c.err)
			}
		})
	}
}

// TestMaxElements has a frame of three bytes a topic, all of them valid.
func TestMaxElements(t *testing.T) {
	topics := bytes.Repeat([]byte{1, 1, 0}, MaxElements+1)
	frame := append(produceHead(true).uv(MaxElements+2), append(topics, 0)...)
	err := new(ProduceRequest).Decode(9, frame)
	if want := "count 262145 makes more than 262144 elements"; err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("error %v, want %q", err, want)
	}
	frame = append(produceHead(true).uv(MaxElements+1), append(topics[3:], 0)...)
	var r ProduceRequest
	if err := r.Decode(9, frame); err != nil || len(r.Topics) != MaxElements {
		t.Fatalf("%d topics, %v", len(r.Topics), err)
	}
	r.Reset()
	if cap(r.Topics) > maxRetained {
		t.Fatalf("Reset keeps room for %d topics", cap(r.Topics))
	}
}

// TestLeniency has what Kafka 4.4 accepts although no encoder writes it: padded
// varints, unknown and repeated tags, bytes behind the last field.
func TestLeniency(t *testing.T) {
	frame := fetchHead(18).raw("\x82\x00").raw("0123456789abcdef").uv(2).
		i32(3).i32(-1).i64(5).i32(-1).i64(-1).i32(9).
		uv(3).tag(1, 8).i64(6).tag(9, 2).raw("??").tag(1, 8).i64(7).
		uv(1).tag(0, 0). // tags of the topic
		uv(1).uv(1).     // nothing forgotten, empty rack
		uv(2).tag(300, 1).raw("?").tag(1, 13).i32(4).i64(8).uv(0).
		raw("trailing")
	var r FetchRequest
	if err := r.Decode(18, frame); err != nil {
		t.Fatal(err)
	}
	want := FetchPartition{Index: 3, CurrentLeaderEpoch: -1, FetchOffset: 5, LastFetchedEpoch: -1, LogStartOffset: -1, MaxBytes: 9, HighWatermark: 7}
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 || r.Topics[0].Partitions[0] != want || r.ReplicaID != 4 || r.ReplicaEpoch != 8 {
		t.Fatalf("decoded %+v", r)
	}
}

// TestDefaults has a version's missing fields at Kafka's defaults, also where the
// decoder held others.
func TestDefaults(t *testing.T) {
	r := FetchRequest{ReplicaEpoch: 1, SessionID: 1, SessionEpoch: 1, RackID: []byte("r"), ClusterID: []byte("c"),
		Forgotten: []ForgottenTopic{{}}}
	frame := fetchHead(4).i32(1).str("t").i32(1).i32(0).i64(5).i32(9)
	if err := r.Decode(4, frame); err != nil {
		t.Fatal(err)
	}
	want := FetchPartition{CurrentLeaderEpoch: -1, FetchOffset: 5, LastFetchedEpoch: -1, LogStartOffset: -1, MaxBytes: 9, HighWatermark: math.MaxInt64}
	if r.ReplicaID != -1 || r.ReplicaEpoch != -1 || r.SessionID != 0 || r.SessionEpoch != -1 || r.RackID != nil ||
		r.ClusterID != nil || len(r.Forgotten) != 0 || r.Topics[0].Partitions[0] != want {
		t.Fatalf("decoded %+v", r)
	}
}

// TestRecordsAreNotCopied holds the decoder to its promise, and its slices to
// their ends: an append to one must not reach the bytes behind it.
func TestRecordsAreNotCopied(t *testing.T) {
	frame := produceHead(false).i32(1).str("t").i32(1).i32(0).i32(4).raw("abcd")
	frame = append(frame, "behind"...)
	var r ProduceRequest
	if err := r.Decode(3, frame); err != nil {
		t.Fatal(err)
	}
	records := r.Topics[0].Partitions[0].Records
	if string(records) != "abcd" || &records[0] != &frame[len(frame)-10] {
		t.Fatalf("records %q are not the frame's", records)
	}
	if cap(records) != len(records) || cap(r.Topics[0].Name) != 1 {
		t.Fatal("a slice reaches beyond its field")
	}
}

// splicer notes what it is called with and writes a mark in place of the records.
type splicer struct{ calls []int32 }

func (s *splicer) Splice(dst []byte, p *FetchPartitionResponse) []byte {
	s.calls = append(s.calls, p.User)
	return append(dst, p.Records...)
}

func TestSplicer(t *testing.T) {
	eachVersion(t, FetchMinVersion, FetchMaxVersion, func(t *testing.T, version int16) {
		g, m := random(t), new(FetchResponse)
		for range 20 {
			g.fetchResponse(m, version)
			var s splicer
			var want []int32
			for i := range m.Topics {
				for j := range m.Topics[i].Partitions {
					p := &m.Topics[i].Partitions[j]
					if p.User = int32(100*i + j); p.RecordsLength > 0 {
						want = append(want, p.User)
					}
				}
			}
			spliced, copied := m.Append(nil, version, &s), m.Append(nil, version, nil)
			if !bytes.Equal(spliced, copied) {
				t.Fatalf("spliced %x, copied %x", spliced, copied)
			}
			if len(s.calls) != len(want) {
				t.Fatalf("calls %v, want %v", s.calls, want)
			}
			for i := range want {
				if s.calls[i] != want[i] {
					t.Fatalf("calls %v, want %v", s.calls, want)
				}
			}
		}
	})
}

// TestBugs has the encoder's only panics.
func TestBugs(t *testing.T) {
	short := new(FetchResponse)
	short.AddTopic()
	short.AddPartition(0).RecordsLength = 5
	for name, f := range map[string]func(){
		"produce version": func() { new(ProduceRequest).Append(nil, 2) },
		"fetch version":   func() { new(FetchResponse).Append(nil, 19, nil) },
		"records":         func() { short.Append(nil, 4, nil) },
		"long name":       func() { AppendRequestHeader(nil, 0, 0, 0, make([]byte, 32768), false) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if s, _ := recover().(string); !strings.HasPrefix(s, "BUG: ") {
					t.Errorf("no BUG panic, but %q", s)
				}
			}()
			f()
		})
	}
}
