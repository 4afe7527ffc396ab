package record

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// RecordError blames one record of a refused batch (KIP-467).
type RecordError struct {
	BatchIndex int32 // index of the record in the batch
	Message    string
}

// Error is the answer to a producer whose batch is refused: Kafka's code, a
// message for people, and the records at fault where that is known.
type Error struct {
	Kerr         *kerr.Error
	Message      string
	RecordErrors []RecordError // at most maxRecordErrors
}

// maxRecordErrors bounds the answer to a batch of a million bad records; Kafka
// lists them all.
const maxRecordErrors = 1000

// Error gives the code's name and the message, and the first record blamed.
func (e *Error) Error() string {
	var s strings.Builder
	s.WriteString(e.Kerr.Message)
	s.WriteString(": ")
	s.WriteString(e.Message)
	if len(e.RecordErrors) > 0 {
		r := e.RecordErrors[0]
		fmt.Fprintf(&s, " (record %d: %s)", r.BatchIndex, r.Message)
	}
	return s.String()
}

// Unwrap gives the code, so that errors.Is(err, kerr.CorruptMessage) works.
func (e *Error) Unwrap() error { return e.Kerr }

// Errorf makes an Error without blame for single records.
func Errorf(code *kerr.Error, format string, args ...any) *Error {
	return &Error{Kerr: code, Message: fmt.Sprintf(format, args...)}
}
