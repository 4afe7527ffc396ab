package group

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
)

// appendError is what a client is told when a record of its group could not be
// written (GroupMetadataManager.appendGroupMetadataErrorToResponseError).
func appendError(err error) *kerr.Error {
	var code *kerr.Error
	if !errors.As(err, &code) {
		return kerr.UnknownServerError
	}
	switch code {
	case kerr.UnknownTopicOrPartition, kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend, kerr.RequestTimedOut:
		return kerr.CoordinatorNotAvailable
	case kerr.NotLeaderForPartition, kerr.KafkaStorageError, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch:
		return kerr.NotCoordinator
	case kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidFetchSize:
		return kerr.UnknownServerError
	}
	return code
}

// commitError is appendError for offsets, which are too many for one batch rather
// than too large.
func commitError(err error) *kerr.Error {
	var code *kerr.Error
	if errors.As(err, &code) && (code == kerr.MessageTooLarge || code == kerr.RecordListTooLarge) {
		return kerr.InvalidCommitOffsetSize
	}
	return appendError(err)
}
