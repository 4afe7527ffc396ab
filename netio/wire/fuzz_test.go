package wire

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The fuzz targets put the same bytes before this package and kmsg. Where ours
// accepts, kmsg must accept and mean the same; where ours misses bytes, kmsg must
// miss them too. (Ours alone refuses nulls, long strings and misplaced tags, as
// Kafka does.)

// fuzzed checks one input. m and fresh are empty messages of this package, of
// which m is used again from input to input; judge is an empty kmsg value.
func fuzzed(t *testing.T, version int16, data []byte, m, fresh codec, judge kmsgCodec) {
	judge.SetVersion(version)
	theirs := judge.ReadFrom(data)
	if err := m.Decode(version, data); err != nil {
		var e *DecodeError
		if !errors.As(err, &e) || e.Position < 0 || e.Position > len(data) || e.Field == "" {
			t.Fatalf("bad error %#v", err)
		}
		if missing(e) && theirs == nil {
			t.Fatalf("v%d: ours misses bytes (%v), kmsg does not", version, err)
		}
		return
	}
	if theirs != nil && !hasNegativeLength(data) {
		t.Fatalf("v%d: ours accepts what kmsg does not: %v", version, theirs)
	}
	if theirs != nil {
		// Judged by what ours made of it.
		judge.SetVersion(version)
		if err := judge.ReadFrom(m.append(nil, version)); err != nil {
			t.Fatalf("v%d: kmsg does not read what ours wrote: %v", version, err)
		}
	}
	normalise(judge)
	ours := m.append(nil, version)
	if want := judge.AppendTo(nil); !bytes.Equal(ours, want) {
		t.Fatalf("v%d:\nours %x\nkmsg %x", version, ours, want)
	}
	if err := fresh.Decode(version, ours); err != nil {
		t.Fatalf("v%d: our own bytes: %v", version, err)
	}
	if again := fresh.append(nil, version); !bytes.Equal(again, ours) {
		t.Fatalf("v%d: changed by decoding:\nwas %x\nis  %x", version, ours, again)
	}
}

// hasNegativeLength says whether data may hold a compact length of 2^31 or more:
// Kafka takes it for a negative one, hence null (MessageUtil, readUnsignedVarint
// into an int), as ours does; kmsg waits for that many bytes.
func hasNegativeLength(data []byte) bool {
	continued := 0
	for _, b := range data {
		if continued >= 4 && b >= 0x08 && b <= 0x0f {
			return true
		}
		if b < 0x80 {
			continued = 0
		} else {
			continued++
		}
	}
	return false
}

// missing says whether the error is that the bytes ran out.
func missing(e *DecodeError) bool {
	return bytes.HasPrefix([]byte(e.Reason), []byte("needs ")) || bytes.Contains([]byte(e.Reason), []byte("remaining"))
}

// seeds adds one random message of each version to the corpus; those of the fixed
// seed are small, the corpus in testdata/fuzz holds what fuzzing found worth
// keeping.
func seeds(f *testing.F, least, most int16, encode func(g generator, version int16) []byte) {
	g := generator{rand.New(rand.NewPCG(1, 2))}
	for version := least; version <= most; version++ {
		body := encode(g, version)
		for len(body) > 600 {
			body = encode(g, version)
		}
		f.Add(uint8(version-least), body)
	}
}

// pick maps any byte to a version of the range.
func pick(v uint8, least, most int16) int16 { return least + int16(v)%(most-least+1) }

func FuzzProduceRequest(f *testing.F) {
	seeds(f, ProduceMinVersion, ProduceMaxVersion, func(g generator, version int16) []byte {
		return g.produceRequest(version).Append(nil, version)
	})
	m := new(ProduceRequest)
	f.Fuzz(func(t *testing.T, v uint8, data []byte) {
		fuzzed(t, pick(v, ProduceMinVersion, ProduceMaxVersion), data, m, new(ProduceRequest), kmsg.NewPtrProduceRequest())
	})
}

func FuzzProduceResponse(f *testing.F) {
	seeds(f, ProduceMinVersion, ProduceMaxVersion, func(g generator, version int16) []byte {
		var r ProduceResponse
		g.produceResponse(&r, version)
		return r.Append(nil, version)
	})
	m := new(ProduceResponse)
	f.Fuzz(func(t *testing.T, v uint8, data []byte) {
		fuzzed(t, pick(v, ProduceMinVersion, ProduceMaxVersion), data, m, new(ProduceResponse), kmsg.NewPtrProduceResponse())
	})
}

func FuzzFetchRequest(f *testing.F) {
	seeds(f, FetchMinVersion, FetchMaxVersion, func(g generator, version int16) []byte {
		return g.fetchRequest(version).Append(nil, version)
	})
	m := new(FetchRequest)
	f.Fuzz(func(t *testing.T, v uint8, data []byte) {
		fuzzed(t, pick(v, FetchMinVersion, FetchMaxVersion), data, m, new(FetchRequest), kmsg.NewPtrFetchRequest())
	})
}

func FuzzFetchResponse(f *testing.F) {
	seeds(f, FetchMinVersion, FetchMaxVersion, func(g generator, version int16) []byte {
		var r FetchResponse
		g.fetchResponse(&r, version)
		return r.Append(nil, version, nil)
	})
	m := new(FetchResponse)
	f.Fuzz(func(t *testing.T, v uint8, data []byte) {
		fuzzed(t, pick(v, FetchMinVersion, FetchMaxVersion), data, m, new(FetchResponse), kmsg.NewPtrFetchResponse())
	})
}

func FuzzRequestHeader(f *testing.F) {
	f.Add(true, AppendRequestHeader(nil, 18, 4, 7, []byte("client"), true))
	f.Add(false, AppendRequestHeader(nil, 3, 1, 7, nil, false))
	f.Add(true, append(AppendRequestHeader(nil, 0, 9, 7, nil, false), 2, 5, 1, 'x', 6, 0, 'b'))
	f.Fuzz(func(t *testing.T, flexible bool, data []byte) {
		h, err := ParseRequestHeader(data, func(int16, int16) bool { return flexible })
		if err != nil {
			if h.Body != nil {
				t.Fatal("a body after an error")
			}
			return
		}
		if len(h.Body) > len(data) || !bytes.HasSuffix(data, h.Body) {
			t.Fatalf("body %x is not the end of %x", h.Body, data)
		}
		again := append(AppendRequestHeader(nil, h.Key, h.Version, h.CorrelationID, h.ClientID, flexible), h.Body...)
		second, err := ParseRequestHeader(again, func(int16, int16) bool { return flexible })
		if err != nil || second.Key != h.Key || second.Version != h.Version || second.CorrelationID != h.CorrelationID ||
			!bytes.Equal(second.ClientID, h.ClientID) || !bytes.Equal(second.Body, h.Body) {
			t.Fatalf("%+v became %+v, %v", h, second, err)
		}
	})
}
