package record

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// explain goes over uncompressed records one by one where walk or a bound on
// all of them was not content: it finds what is wrong, in Kafka's words, or the
// largest timestamp if nothing is.
func (p *Policy) explain(b Batch, raw []byte) (Timestamp, error) {
	e := explainer{policy: p, base: b.BaseTimestamp(), needKeys: p.Compacted && !b.Attributes().Control()}
	highest := NoTimestamp
	count := b.Count()
	pos := 0
	var r rawRecord
	for i := range count {
		end, ok := parseRecord(raw, pos, &r)
		if !ok {
			return 0, Errorf(kerr.InvalidRecord, "found invalid record structure: record %d of %d, at byte %d of %d", i, count, pos, len(raw))
		}
		e.judge(i, &r)
		highest = max(highest, e.base+Timestamp(r.timestampDelta))
		pos = end
	}
	if pos != len(raw) {
		return 0, Errorf(kerr.InvalidRecord, "incorrect declared batch size, records still remaining in file")
	}
	return highest, e.result()
}

// explainer gathers the faults of single records (LogValidator.validateRecord
// and processRecordErrors).
type explainer struct {
	policy   *Policy
	base     Timestamp
	needKeys bool
	total    int
	badTime  bool
	errors   []RecordError
}

// judge notes the first fault of record i.
func (e *explainer) judge(i int32, r *rawRecord) {
	timestamp := e.base + Timestamp(r.timestampDelta)
	switch {
	case r.offsetDelta != i:
		e.blame(i, fmt.Sprintf("Record %d of the batch has offset delta %d", i, r.offsetDelta))
	case e.needKeys && r.keyLen < 0:
		e.blame(i, "Compacted topic cannot accept message without key")
	case e.policy.TimestampType == CreateTime && timestamp != NoTimestamp && !e.policy.inTime(timestamp):
		e.badTime = true
		e.blame(i, fmt.Sprintf("Timestamp %d of message with offset %d is out of range. The timestamp should be within [%d, %d]",
			timestamp, r.offsetDelta, int64(e.policy.Now)-e.policy.TimestampBeforeMaxMs, int64(e.policy.Now)+e.policy.TimestampAfterMaxMs))
	}
}

func (e *explainer) blame(i int32, message string) {
	e.total++
	if len(e.errors) < maxRecordErrors {
		e.errors = append(e.errors, RecordError{BatchIndex: i, Message: message})
	}
}

// result is nil if no record is at fault.
func (e *explainer) result() error {
	switch {
	case e.total == 0:
		return nil
	case e.badTime:
		return &Error{Kerr: kerr.InvalidTimestamp, RecordErrors: e.errors,
			Message: "One or more records have been rejected due to invalid timestamp"}
	}
	var first []string
	for _, r := range e.errors[:min(len(e.errors), 3)] {
		first = append(first, fmt.Sprintf("RecordError(batchIndex=%d, message='%s')", r.BatchIndex, r.Message))
	}
	return &Error{Kerr: kerr.InvalidRecord, RecordErrors: e.errors,
		Message: fmt.Sprintf("One or more records have been rejected due to %d record errors in total, and only showing the first three errors at most: [%s]",
			e.total, strings.Join(first, ", "))}
}
