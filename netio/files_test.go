package netio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// testFile is a file with known content on a real file system.
func testFile(t testing.TB, n int) (*os.File, []byte) {
	t.Helper()
	content := make([]byte, n)
	for i := 0; i+8 <= n; i += 8 {
		binary.BigEndian.PutUint64(content[i:], uint64(i)*0x9e3779b97f4a7c15)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "segment"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if _, err := f.Write(content); err != nil {
		t.Fatal(err)
	}
	return f, content
}

// evict drops f's pages and fails the test if they stay.
func evict(t testing.TB, f *os.File) {
	t.Helper()
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
}

type countingReleaser struct{ n atomic.Int64 }

func (r *countingReleaser) Release() { r.n.Add(1) }

// TestFileRanges asks for replies with file ranges between bytes, hot, cold
// and from memory, and compares every byte.
func TestFileRanges(t *testing.T) {
	eachEngine(t, func(t *testing.T, e env) {
		f, content := testFile(t, 6<<20)
		rng := seeded(t)
		var owner countingReleaser
		var ranges atomic.Int64
		h := &testHandler{request: func(_ *Conn, r *Request) {
			// The request lists (position, length) pairs; from memory if odd.
			p := r.Payload()[8:]
			out := r.Out()
			out.Buf = append(out.Buf, r.Payload()[:8]...)
			for len(p) >= 16 {
				fr := FileRange{FD: int(f.Fd()), Position: int64(binary.BigEndian.Uint64(p)), Length: int64(binary.BigEndian.Uint64(p[8:])), Owner: &owner}
				if fr.Position%2 == 1 {
					fr.FD, fr.Source = -1, bytes.NewReader(content)
				}
				ranges.Add(1)
				out.Splice(fr)
				out.Buf = append(out.Buf, p[:16]...)
				p = p[16:]
			}
			r.Done()
		}}
		s, addr := e.start(t, h, nil)
		ask := func(i int, pairs ...int) (req, want []byte) {
			req = binary.BigEndian.AppendUint64(nil, uint64(i))
			want = append(want, req...)
			for j := 0; j < len(pairs); j += 2 {
				pair := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(pairs[j])), uint64(pairs[j+1]))
				req = append(req, pair...)
				want = append(want, content[pairs[j]:pairs[j]+pairs[j+1]]...)
				want = append(want, pair...)
			}
			return req, want
		}
		var wg sync.WaitGroup
		for cold := range 2 {
			if cold == 1 {
				evict(t, f)
			}
			for range 3 {
				var reqs, wants [][]byte
				for i := range 12 {
					var pairs []int
					for range rng.IntN(4) {
						n := rng.IntN(1 << rng.IntN(21))
						pairs = append(pairs, rng.IntN(len(content)-n), n)
					}
					req, want := ask(i, pairs...)
					reqs, wants = append(reqs, req), append(wants, want)
				}
				p := dial(t, addr)
				wg.Go(func() {
					for i := range reqs {
						if _, err := p.Write(frame(reqs[i])); err != nil {
							t.Error(err)
						}
					}
					for i := range reqs {
						if got, err := p.tryReceive(); err != nil || !bytes.Equal(got, wants[i]) {
							t.Errorf("cold=%d reply %d: %d bytes, want %d: %v", cold, i, len(got), len(wants[i]), err)
							return
						}
					}
				})
			}
			wg.Wait()
		}
		s.Close()
		if owner.n.Load() != ranges.Load() {
			t.Errorf("%d of %d ranges released", owner.n.Load(), ranges.Load())
		}
	})
}

// TestColdReadLeavesLoop checks that a range that is not in the page cache is
// read by a worker.
func TestColdReadLeavesLoop(t *testing.T) {
	eachEngineOnce(t, func(t *testing.T, e env) {
		f, content := testFile(t, 4<<20)
		evict(t, f)
		var o output
		o.init()
		defer o.close()
		if o.resident(int(f.Fd()), 2<<20) {
			t.Skip("this file system does not drop pages, or cannot tell: nothing is cold here")
		}
		h := &testHandler{request: func(_ *Conn, r *Request) {
			r.Out().Splice(FileRange{FD: int(f.Fd()), Length: int64(len(content))})
			r.Done()
		}}
		s, addr := e.start(t, h, nil)
		p := dial(t, addr)
		p.send(numbered(1, 8))
		p.want(content)
		s.workers.mu.Lock()
		defer s.workers.mu.Unlock()
		if s.workers.running == 0 {
			t.Error("no worker was started for a cold range")
		}
	})
}

// TestCloseWhileCold closes a connection while a worker reads for it.
func TestCloseWhileCold(t *testing.T) {
	eachEngineOnce(t, func(t *testing.T, e env) {
		f, content := testFile(t, 1<<20)
		var owner countingReleaser
		h := &testHandler{request: func(c *Conn, r *Request) {
			r.Out().Splice(FileRange{FD: int(f.Fd()), Length: int64(len(content)), Owner: &owner})
			r.Done()
			c.Loop().Post(taskFunc(func(l *Loop) { l.closeConn(c, ErrServerClosed) }))
		}}
		s, addr := e.start(t, h, nil)
		for i := range 20 {
			evict(t, f)
			p := dial(t, addr)
			p.send(numbered(1, 8))
			_ = h.closedWith(t, i+1)
		}
		s.Close()
		if owner.n.Load() != 20 {
			t.Errorf("%d of 20 ranges released", owner.n.Load())
		}
	})
}

// TestTruncatedFile shortens the file under a reply that is being sent.
func TestTruncatedFile(t *testing.T) {
	eachEngineOnce(t, func(t *testing.T, e env) {
		f, _ := testFile(t, 1<<20)
		var owner countingReleaser
		h := &testHandler{request: func(_ *Conn, r *Request) {
			if err := f.Truncate(300_000); err != nil {
				t.Error(err)
			}
			r.Out().Splice(FileRange{FD: int(f.Fd()), Length: 1 << 20, Owner: &owner})
			r.Done()
		}}
		_, addr := e.start(t, h, nil)
		p := dial(t, addr)
		p.send(numbered(1, 8))
		p.wantClosed()
		if err := h.closedWith(t, 1); !errors.Is(err, ErrTruncated) {
			t.Errorf("closed for %v", err)
		}
		waitFor(t, "the release", func() bool { return owner.n.Load() == 1 })
	})
}
