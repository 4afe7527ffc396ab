package storage

import (
	"github.com/posthouse/posthouse/storage/record"
)

// windowScanBytes is how far back from the end of the log a start looks for the
// batches that a snapshot left out: the five batches in flight of several busy
// producers.
const windowScanBytes = 8 << 20

// fillWindows gives producers that came from a snapshot back their latest
// batches. A snapshot holds the last batch of each alone, so a client whose
// answers were lost with the stop, and who sends all that it had in flight
// again, would be told that the first of them is out of sequence; it then
// starts a new epoch and writes duplicates, as it does with Kafka. The batches
// are still at the end of the log.
//
// It runs once, before the first append after a start, in the appender's place
// (a worker's, see Cold). Whatever it cannot read it leaves as it is.
func (l *Log) fillWindows() {
	if !l.producers.partial {
		return
	}
	l.producers.partial = false
	list := l.list()
	first, room := len(list)-1, int64(windowScanBytes)
	for first > 0 && list[first].size.Load() < room {
		room -= list[first].size.Load()
		first--
	}
	found := make(map[record.ProducerID]*producerEntry, l.producers.len())
	for i, s := range list[first:] {
		from := int64(0)
		if i == 0 {
			from = max(0, s.size.Load()-room)
		}
		if err := l.collectWindows(s, from, found); err != nil {
			l.logger.Warn("the latest batches of producers are not remembered", "dir", l.dir, "err", err)
			return
		}
	}
	for id, window := range found {
		e := l.producers.find(id)
		if e == nil || e.n == 0 || window.n <= e.n || e.epoch != window.epoch || e.last().lastOffset != window.last().lastOffset {
			continue
		}
		e.batches, e.n = window.batches, window.n
	}
}

// collectWindows adds the batches of a segment's [from, size) to the windows.
func (l *Log) collectWindows(s *segment, from int64, found map[record.ProducerID]*producerEntry) error {
	size := s.size.Load()
	if size == 0 {
		return nil
	}
	pos, err := s.index.positionAtMost(Position(from))
	if err != nil {
		return err
	}
	h, err := s.file.acquire(false)
	if err != nil {
		return err
	}
	defer h.release()
	return scanHeaders(h.file, int64(pos), size, false, func(_ Position, hd *record.Header) bool {
		if hd.ProducerID <= record.NoProducerID || hd.Attributes.Control() || l.producers.find(hd.ProducerID) == nil {
			return true
		}
		window := found[hd.ProducerID]
		if window == nil {
			window = &producerEntry{id: hd.ProducerID}
			found[hd.ProducerID] = window
		}
		window.addBatch(hd.ProducerEpoch, batchMetaOf(hd))
		return true
	})
}
