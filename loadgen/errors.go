package loadgen

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// codeError is the error of a protocol's code, also of one that is not known.
func codeError(code int16) error {
	if err := kerr.TypedErrorForCode(code); err != nil {
		return err
	}
	return fmt.Errorf("error code %d", code)
}

// codeName is its name, for counts.
func codeName(code int16) string {
	if err := kerr.TypedErrorForCode(code); err != nil {
		return err.Message
	}
	return fmt.Sprintf("CODE_%d", code)
}

// retriable says that the same request may succeed later.
func retriable(code int16) bool { return kerr.IsRetriable(codeError(code)) }

// wantsNewID says that the broker has lost an idempotent producer's state.
func wantsNewID(code int16) bool {
	err := codeError(code)
	return errors.Is(err, kerr.OutOfOrderSequenceNumber) || errors.Is(err, kerr.UnknownProducerID) ||
		errors.Is(err, kerr.InvalidProducerEpoch)
}
