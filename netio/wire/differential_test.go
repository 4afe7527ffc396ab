package wire

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// rounds is how many random messages each version and kind is tried with.
const rounds = 100

// random gives each subtest a generator of its own and prints the seed on failure.
func random(t *testing.T) generator {
	seed := uint64(time.Now().UnixNano())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return generator{rand.New(rand.NewPCG(seed, 1))}
}

// eachVersion runs test as a subtest for every version of a range.
func eachVersion(t *testing.T, least, most int16, test func(t *testing.T, version int16)) {
	for version := least; version <= most; version++ {
		t.Run(fmt.Sprintf("v%d", version), func(t *testing.T) { test(t, version) })
	}
}

// codec is a message of this package.
type codec interface {
	Decode(version int16, body []byte) error
	append(dst []byte, version int16) []byte
	kmsgValue(version int16) kmsgCodec
}

type kmsgCodec interface {
	AppendTo(dst []byte) []byte
	ReadFrom(src []byte) error
	SetVersion(version int16)
}

func (r *ProduceRequest) append(dst []byte, version int16) []byte  { return r.Append(dst, version) }
func (r *ProduceResponse) append(dst []byte, version int16) []byte { return r.Append(dst, version) }
func (r *FetchRequest) append(dst []byte, version int16) []byte    { return r.Append(dst, version) }
func (r *FetchResponse) append(dst []byte, version int16) []byte   { return r.Append(dst, version, nil) }

func (r *ProduceRequest) kmsgValue(version int16) kmsgCodec  { return r.kmsg(version) }
func (r *ProduceResponse) kmsgValue(version int16) kmsgCodec { return r.kmsg(version) }
func (r *FetchRequest) kmsgValue(version int16) kmsgCodec    { return r.kmsg(version) }
func (r *FetchResponse) kmsgValue(version int16) kmsgCodec   { return r.kmsg(version) }

// agree checks a message against kmsg in both directions, byte for byte: both
// encode it alike, both decode what the other wrote, and what they decoded encodes
// to the same bytes again. decoder is used again for every message, judge is an
// empty kmsg value of the kind.
func agree(t *testing.T, version int16, m, decoder codec, judge kmsgCodec) {
	t.Helper()
	ours := m.append(nil, version)
	theirs := m.kmsgValue(version).AppendTo(nil)
	if !bytes.Equal(ours, theirs) {
		t.Fatalf("encoded differently:\nours  %x\nkmsg  %x\nfrom  %+v", ours, theirs, m)
	}
	if err := decoder.Decode(version, theirs); err != nil {
		t.Fatalf("%v\nbytes %x\nfrom  %+v", err, theirs, m)
	}
	if again := decoder.append(nil, version); !bytes.Equal(again, ours) {
		t.Fatalf("changed by decoding:\nwas %x\nis  %x\nfrom  %+v", ours, again, m)
	}
	if value := decoder.kmsgValue(version).AppendTo(nil); !bytes.Equal(value, ours) {
		t.Fatalf("values changed by decoding:\nwas %x\nis  %x\nfrom  %+v", ours, value, m)
	}
	judge.SetVersion(version)
	if err := judge.ReadFrom(ours); err != nil {
		t.Fatalf("kmsg: %v\nbytes %x\nfrom  %+v", err, ours, m)
	}
	if again := judge.AppendTo(nil); !bytes.Equal(again, ours) {
		t.Fatalf("kmsg decoded something else:\nwas %x\nis  %x\nfrom  %+v", ours, again, m)
	}
	truncated(t, version, ours, decoder)
}

// truncated checks that a message cut short is refused, at a position inside it.
// (Small ones are cut everywhere.)
func truncated(t *testing.T, version int16, body []byte, decoder codec) {
	t.Helper()
	step := 1 + len(body)/40
	for n := 0; n < len(body); n += step {
		err := decoder.Decode(version, body[:n:n])
		if err == nil {
			t.Fatalf("the first %d of %d bytes were accepted: %x", n, len(body), body)
		}
		if e := err.(*DecodeError); e.Position < 0 || e.Position > n || e.Field == "" || e.Version != version {
			t.Fatalf("bad error for the first %d of %d bytes: %+v", n, len(body), e)
		}
	}
}

func TestProduceRequestAgainstKmsg(t *testing.T) {
	eachVersion(t, ProduceMinVersion, ProduceMaxVersion, func(t *testing.T, version int16) {
		g, decoder := random(t), new(ProduceRequest)
		for range rounds {
			agree(t, version, g.produceRequest(version), decoder, kmsg.NewPtrProduceRequest())
		}
	})
}

func TestProduceResponseAgainstKmsg(t *testing.T) {
	eachVersion(t, ProduceMinVersion, ProduceMaxVersion, func(t *testing.T, version int16) {
		g, m, decoder := random(t), new(ProduceResponse), new(ProduceResponse)
		for range rounds {
			g.produceResponse(m, version)
			agree(t, version, m, decoder, kmsg.NewPtrProduceResponse())
		}
	})
}

func TestFetchRequestAgainstKmsg(t *testing.T) {
	eachVersion(t, FetchMinVersion, FetchMaxVersion, func(t *testing.T, version int16) {
		g, decoder := random(t), new(FetchRequest)
		for range rounds {
			agree(t, version, g.fetchRequest(version), decoder, kmsg.NewPtrFetchRequest())
		}
	})
}

func TestFetchResponseAgainstKmsg(t *testing.T) {
	eachVersion(t, FetchMinVersion, FetchMaxVersion, func(t *testing.T, version int16) {
		g, m, decoder := random(t), new(FetchResponse), new(FetchResponse)
		for range rounds {
			g.fetchResponse(m, version)
			agree(t, version, m, decoder, kmsg.NewPtrFetchResponse())
		}
	})
}
