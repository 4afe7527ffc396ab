package storage

import (
	"io"
	"sync"
	"sync/atomic"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
)

// Span is a range of a segment file that holds batches, from a batch boundary
// on. It keeps the file open, whatever becomes of the segment, until it is
// released. Spans are pooled: not to be touched after the last Release.
type Span struct {
	h    *handle
	pos  int64
	n    int64
	base record.Offset
	refs atomic.Int32
}

var spanPool = sync.Pool{New: func() any { return new(Span) }}

// newSpan takes over a reference to the file.
func newSpan(h *handle, pos, n int64, base record.Offset) *Span {
	s := spanPool.Get().(*Span)
	s.h, s.pos, s.n, s.base = h, pos, n, base
	s.refs.Store(1)
	return s
}

// File is the segment file. It must not be written or closed.
func (s *Span) File() vfs.File { return s.h.file }

// FD is the file's descriptor for sendfile, −1 for a file in memory.
func (s *Span) FD() int { return s.h.file.FD() }

// Position is where the span begins in the file, in bytes.
func (s *Span) Position() int64 { return s.pos }

// Length is the span's size in bytes, at least one batch unless its end was
// cut by the reader's limit.
func (s *Span) Length() int64 { return s.n }

// BaseOffset is the offset at which the first batch begins, or lower where
// compaction left a gap before it.
func (s *Span) BaseOffset() record.Offset { return s.base }

// ReadAt reads from the span, off counting from its beginning; io.EOF at its
// end. It may wait for the disk.
func (s *Span) ReadAt(p []byte, off int64) (int, error) {
	if off >= s.n {
		return 0, io.EOF
	}
	short := int64(len(p)) > s.n-off
	if short {
		p = p[:s.n-off]
	}
	n, err := s.h.file.ReadAt(p, s.pos+off)
	if err == nil && short {
		err = io.EOF
	}
	return n, err
}

// Retain takes another reference.
func (s *Span) Retain() { s.refs.Add(1) }

// Release gives a reference back; the last one frees the span.
func (s *Span) Release() {
	switch n := s.refs.Add(-1); {
	case n > 0:
		return
	case n < 0:
		panic("BUG: span released more often than taken")
	}
	h := s.h
	s.h = nil
	if invariants {
		s.pos, s.n, s.base = -1, -1, -1
	}
	spanPool.Put(s)
	h.release()
}
