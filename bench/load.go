package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Pipeline sends one prebuilt Produce frame (v9, one partition, acks 1 or all)
// n times over a connection, with at most depth of them unanswered, and checks
// the error code of each answer. The correlation id is the number of the frame.
func Pipeline(conn *RawConn, frame []byte, n, depth int) error {
	const correlationAt = 8
	var answer []byte
	sent := 0
	for received := 0; received < n; received++ {
		for sent < n && sent-received < depth {
			binary.BigEndian.PutUint32(frame[correlationAt:], uint32(sent))
			if _, err := conn.Write(frame); err != nil {
				return fmt.Errorf("send request %d: %w", sent, err)
			}
			sent++
		}
		var err error
		if answer, err = conn.readFrameInto(answer); err != nil {
			return fmt.Errorf("answer %d: %w", received, err)
		}
		if err := checkProduceAnswer(answer, uint32(received)); err != nil {
			return fmt.Errorf("answer %d: %w", received, err)
		}
	}
	return nil
}

// checkProduceAnswer reads as much of a Produce response v9 as says whether
// the one partition was written; a decoder would cost more than the sending.
func checkProduceAnswer(answer []byte, correlation uint32) error {
	// correlation id 4, header tags 1, topics 1, name 1+n, partitions 1, index 4, error 2
	if len(answer) < 8 {
		return fmt.Errorf("of %d bytes", len(answer))
	}
	if got := binary.BigEndian.Uint32(answer); got != correlation {
		return fmt.Errorf("has correlation id %d", got)
	}
	const nameAt = 6
	errorAt := nameAt + int(answer[nameAt]) + 1 + 4 // a compact string's length counts itself
	if len(answer) < errorAt+2 {
		return errors.New("is cut")
	}
	return kerr.ErrorForCode(int16(binary.BigEndian.Uint16(answer[errorAt:])))
}

// readFrameInto reads one response without its length prefix into buf, which
// it grows as needed and returns.
func (c *RawConn) readFrameInto(buf []byte) ([]byte, error) {
	var prefix [4]byte
	if _, err := io.ReadFull(c.reader, prefix[:]); err != nil {
		return buf, err
	}
	size := int32(binary.BigEndian.Uint32(prefix[:]))
	if size < 4 || size > 128<<20 {
		return buf, fmt.Errorf("response of %d bytes", size)
	}
	if cap(buf) < int(size) {
		buf = make([]byte, size)
	}
	buf = buf[:size]
	_, err := io.ReadFull(c.reader, buf)
	return buf, err
}
