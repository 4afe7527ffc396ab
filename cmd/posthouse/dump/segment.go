package dump

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/posthouse/posthouse/cmd/posthouse/cli"
	"github.com/posthouse/posthouse/storage/record"
)

// segmentScan reads a .log from its beginning, batch by batch, and holds its
// indexes against it.
type segmentScan struct {
	r     *report
	opts  *options
	path  string
	base  record.Offset // of the file's name, -1 where the name does not tell
	codec decoder       // of the records, nil for none

	file     *os.File
	size     int64
	position int64
	buffer   []byte

	next    record.Offset // first offset that the next batch may have
	epoch   record.LeaderEpoch
	shown   int
	indexes *indexes
	batches int64
}

// dumpSegment shows or verifies one segment. It gives the offset after its last
// batch, base if it has none.
func dumpSegment(r *report, opts *options, path string) (end record.Offset, err error) {
	s := &segmentScan{r: r, opts: opts, path: path, base: baseOf(path), epoch: record.NoLeaderEpoch}
	s.next = max(s.base, 0)
	topic := topicOf(path)
	s.codec = opts.decoder
	if s.codec == nil && opts.decode == decodeAuto {
		s.codec = decoderOf(topic)
	}
	if s.file, err = os.Open(path); err != nil {
		return s.next, err
	}
	defer s.file.Close()
	info, err := s.file.Stat()
	if err != nil {
		return s.next, err
	}
	s.size = info.Size()
	r.file(path, "segment, "+cli.Bytes(s.size))
	r.bytes += s.size
	if opts.verify {
		s.indexes = openIndexes(r, path, s.base)
	}
	err = s.scan()
	if err == nil && s.indexes != nil {
		s.indexes.finish(s.size)
	}
	return s.next, err
}

// baseOf is the base offset that a segment file's name begins with; -1 for
// other names.
func baseOf(path string) record.Offset {
	name := filepath.Base(path)
	digits, _, _ := strings.Cut(name, ".")
	var base int64
	if len(digits) != 20 {
		return -1
	}
	if _, err := fmt.Sscanf(digits, "%020d", &base); err != nil {
		return -1
	}
	return record.Offset(base)
}

// topicOf is the topic whose partition directory holds a file, "" if none does.
func topicOf(path string) string {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return ""
	}
	tp, err := record.ParseDir(filepath.Base(filepath.Dir(absolute)))
	if err != nil {
		return ""
	}
	return tp.Topic
}

// readAhead is the buffer for headers and batches.
const readAhead = 1 << 20

func (s *segmentScan) scan() error {
	in := bufio.NewReaderSize(s.file, readAhead)
	for s.position < s.size {
		head, err := in.Peek(record.HeaderSize)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s: at byte %d: %w", s.path, s.position, err)
		}
		h, err := record.ParseHeader(head)
		switch {
		case errors.Is(err, record.ErrEnd):
			return s.zeros(in)
		case errors.Is(err, record.ErrShort):
			s.r.problem(s.path, s.position, "the file ends inside a batch's header, %d bytes after its beginning", s.size-s.position)
			return nil
		case err != nil:
			s.r.problem(s.path, s.position, "no batch: %s", strings.TrimPrefix(err.Error(), "record: "))
			return nil
		case int64(h.SizeBytes) > s.size-s.position:
			s.r.problem(s.path, s.position, "the batch at offset %d of %d bytes ends past the end of the file: it is cut short by %d", h.BaseOffset, h.SizeBytes, int64(h.SizeBytes)-(s.size-s.position))
			return nil
		}
		if cap(s.buffer) < h.SizeBytes {
			s.buffer = make([]byte, h.SizeBytes)
		}
		batch := record.Batch(s.buffer[:h.SizeBytes])
		if _, err := io.ReadFull(in, batch); err != nil {
			return fmt.Errorf("%s: at byte %d: %w", s.path, s.position, err)
		}
		s.batch(batch)
		s.position += int64(h.SizeBytes)
		if s.opts.count > 0 && s.shown >= s.opts.count && !s.opts.verify {
			return nil
		}
	}
	return nil
}

// zeros is the preallocated end of a segment: there must be nothing else.
func (s *segmentScan) zeros(in io.Reader) error {
	buffer := make([]byte, readAhead)
	for at := s.position; ; {
		n, err := in.Read(buffer)
		for i, c := range buffer[:n] {
			if c != 0 {
				s.r.problem(s.path, at+int64(i), "bytes after zeros that began at byte %d: a hole in the segment", s.position)
				return nil
			}
		}
		at += int64(n)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%s: at byte %d: %w", s.path, at, err)
		}
	}
	s.r.note(s.path, s.position, "%d bytes of zeros to the end of the file: reserved, not written", s.size-s.position)
	s.size = s.position
	return nil
}

// batch shows and checks one batch.
func (s *segmentScan) batch(b record.Batch) {
	s.r.batches++
	s.r.records += int64(b.Count())
	s.batches++
	wanted := b.LastOffset() >= s.opts.from && (s.opts.count == 0 || s.shown < s.opts.count)
	if wanted {
		s.shown++
		s.r.item(s.path, "batch", func() string { return s.line(b) }, func() object { return s.members(b) })
	}
	s.check(b)
	if s.indexes != nil {
		s.indexes.batch(b, s.position)
	}
	if wanted && s.opts.records && !s.r.silent {
		s.records(b)
	}
	s.next = max(s.next, b.NextOffset())
	s.epoch = max(s.epoch, b.LeaderEpoch())
}

// check finds what must not be in a batch, or between it and the one before.
func (s *segmentScan) check(b record.Batch) {
	wrong := func(format string, args ...any) { s.r.problem(s.path, s.position, format, args...) }
	if b.BaseOffset() < s.next {
		if s.batches == 1 {
			wrong("the first batch begins at offset %d, before the segment's %d", b.BaseOffset(), s.base)
		} else {
			wrong("the batch begins at offset %d, where %d or later must follow", b.BaseOffset(), s.next)
		}
	}
	if b.LeaderEpoch() < s.epoch {
		wrong("leader epoch %d after %d", b.LeaderEpoch(), s.epoch)
	}
	if !b.VerifyCRC() {
		wrong("the batch at offset %d has the checksum %08x, its content %08x", b.BaseOffset(), b.CRC(), record.Checksum(b[21:]))
		return // what is in it is not worth a second complaint
	}
	if !s.opts.verify {
		return
	}
	if b.Count() == 0 {
		return // compaction has emptied it
	}
	last, n := int64(-1), int64(0)
	newest := record.NoTimestamp
	err := b.Each(func(r record.Record) bool {
		if int64(r.OffsetDelta) <= last || r.OffsetDelta > b.LastOffsetDelta() {
			wrong("record %d of the batch at offset %d has the offset delta %d after %d, the batch's last is %d", n, b.BaseOffset(), r.OffsetDelta, last, b.LastOffsetDelta())
			return false
		}
		last = int64(r.OffsetDelta)
		newest = max(newest, r.Timestamp)
		n++
		return true
	})
	switch {
	case err != nil:
		wrong("%s", strings.TrimPrefix(err.Error(), "record: "))
	case n == int64(b.Count()) && newest > b.MaxTimestamp():
		wrong("the batch at offset %d has a record of time %d, its greatest is said to be %d", b.BaseOffset(), newest, b.MaxTimestamp())
	}
}

// kindsOf are a batch's flags in words.
func kindsOf(a record.Attributes) []string {
	kinds := []string{a.Codec().String()}
	for _, f := range []struct {
		set  bool
		word string
	}{{a.Transactional(), "transactional"}, {a.Control(), "control"}, {a.LogAppendTime(), "log append time"}, {a.HasDeleteHorizon(), "delete horizon"}} {
		if f.set {
			kinds = append(kinds, f.word)
		}
	}
	return kinds
}

func (s *segmentScan) line(b record.Batch) string {
	producer := ""
	if b.ProducerID() >= 0 {
		producer = fmt.Sprintf(" producer %d/%d sequence %d", b.ProducerID(), b.ProducerEpoch(), b.BaseSequence())
	}
	return fmt.Sprintf("batch [%d, %d] at %d: %s, %d bytes, epoch %d, %s, crc %08x, %s%s", b.BaseOffset(), b.LastOffset(), s.position,
		cli.Count(int(b.Count()), "record"), b.SizeBytes(), b.LeaderEpoch(), cli.FormatTime(int64(b.MaxTimestamp())), b.CRC(), strings.Join(kindsOf(b.Attributes()), ", "), producer)
}

func (s *segmentScan) members(b record.Batch) object {
	return object{{"position", s.position}, {"baseOffset", b.BaseOffset()}, {"lastOffset", b.LastOffset()}, {"records", b.Count()}, {"bytes", b.SizeBytes()},
		{"leaderEpoch", b.LeaderEpoch()}, {"baseTimestamp", b.BaseTimestamp()}, {"maxTimestamp", b.MaxTimestamp()}, {"crc", b.CRC()}, {"crcValid", b.VerifyCRC()},
		{"attributes", kindsOf(b.Attributes())}, {"producerId", b.ProducerID()}, {"producerEpoch", b.ProducerEpoch()}, {"baseSequence", b.BaseSequence()}}
}

// records shows what is in a batch.
func (s *segmentScan) records(b record.Batch) {
	decode := s.codec
	if b.Attributes().Control() {
		decode = decodeControl
	}
	err := b.Each(func(r record.Record) bool {
		var meaning object
		if decode != nil {
			var err error
			if meaning, err = decode(r.Key, r.Value); err != nil {
				meaning = object{{"undecodable", err.Error()}, {"key", text(r.Key)}, {"value", text(r.Value)}}
			}
		} else {
			meaning = object{{"key", text(r.Key)}, {"value", text(r.Value)}}
		}
		if r.Headers.Len() > 0 {
			headers := []object{}
			for k, v := range r.Headers.All() {
				headers = append(headers, object{{"key", text(k)}, {"value", text(v)}})
			}
			meaning = append(meaning, member{"headers", headers})
		}
		s.r.item(s.path, "record", func() string {
			words, err := meaning.MarshalJSON()
			if err != nil {
				return err.Error()
			}
			return fmt.Sprintf("  record %d, %s: %s", r.Offset, cli.FormatTime(int64(r.Timestamp)), words)
		}, func() object {
			return append(object{{"offset", r.Offset}, {"timestamp", r.Timestamp}}, meaning...)
		})
		return true
	})
	if err != nil && !s.opts.verify { // a verification has said it
		s.r.problem(s.path, s.position, "%s", strings.TrimPrefix(err.Error(), "record: "))
	}
}
