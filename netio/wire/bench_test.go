package wire

import "testing"

// The benchmarks state bytes of the message without its records, which no codec
// touches, and fail where a run allocates.

func failOnAllocs(b *testing.B, f func()) {
	b.Helper()
	f()
	if n := testing.AllocsPerRun(10, f); n != 0 {
		b.Fatalf("%v allocations a run, want none", n)
	}
	b.ReportAllocs()
	for b.Loop() {
		f()
	}
}

func benchmarkProduceDecode(b *testing.B, version int16, m *ProduceRequest) {
	body, r := m.Append(nil, version), new(ProduceRequest)
	failOnAllocs(b, func() {
		if err := r.Decode(version, body); err != nil {
			b.Fatal(err)
		}
	})
}

func oneProduceRequest() *ProduceRequest {
	r := usualProduceRequest()
	r.Topics = r.Topics[:1]
	r.Topics[0].Partitions = r.Topics[0].Partitions[:1]
	return r
}

func BenchmarkProduceDecode(b *testing.B) {
	b.Run("v8/one", func(b *testing.B) { benchmarkProduceDecode(b, 8, oneProduceRequest()) })
	b.Run("v13/one", func(b *testing.B) { benchmarkProduceDecode(b, 13, oneProduceRequest()) })
	b.Run("v13/twelve", func(b *testing.B) { benchmarkProduceDecode(b, 13, usualProduceRequest()) })
}

func BenchmarkProduceEncode(b *testing.B) {
	out, r, name := make([]byte, 0, 4096), new(ProduceResponse), []byte("orders")
	failOnAllocs(b, func() {
		fillProduceResponse(r, name)
		out = r.Append(out[:0], 13)
	})
}

func BenchmarkFetchDecode(b *testing.B) {
	body, r := usualFetchRequest().Append(nil, 18), new(FetchRequest)
	failOnAllocs(b, func() {
		if err := r.Decode(18, body); err != nil {
			b.Fatal(err)
		}
	})
}

func BenchmarkFetchEncode(b *testing.B) {
	name := []byte("orders")
	b.Run("v18/one", func(b *testing.B) {
		out, r, s := make([]byte, 0, 4096), new(FetchResponse), new(spans)
		failOnAllocs(b, func() {
			r.Reset()
			t := r.AddTopic()
			t.ID = TopicID{1}
			p := r.AddPartition(0)
			p.HighWatermark, p.LastStableOffset, p.LogStartOffset, p.RecordsLength = 1<<40, 1<<40, 0, 16384
			out = r.Append(out[:0], 18, s)
		})
	})
	for _, version := range []int16{11, 18} {
		b.Run(map[int16]string{11: "v11/thirteen", 18: "v18/thirteen"}[version], func(b *testing.B) {
			out, r, s := make([]byte, 0, 4096), new(FetchResponse), new(spans)
			failOnAllocs(b, func() {
				fillFetchResponse(r, name, nil)
				out = r.Append(out[:0], version, s)
			})
		})
	}
}

func BenchmarkRequestHeader(b *testing.B) {
	flexible := func(int16, int16) bool { return true }
	frame := append(AppendRequestHeader(nil, KeyFetch, 12, 1, []byte("client"), true), "body"...)
	failOnAllocs(b, func() {
		if _, err := ParseRequestHeader(frame, flexible); err != nil {
			b.Fatal(err)
		}
	})
}
