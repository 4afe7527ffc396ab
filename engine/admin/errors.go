package admin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/posthouse/posthouse/engine/config"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
)

// fail makes an answerable error with a text for people.
func fail(code *kerr.Error, format string, args ...any) error {
	return &record.Error{Kerr: code, Message: fmt.Sprintf(format, args...)}
}

// answer turns an error into a response's code and message. A bad config is
// INVALID_CONFIG; an error without a code is UNKNOWN_SERVER_ERROR, whose text
// does not leave the broker.
func (h *Handlers) answer(api string, err error) (int16, *string) {
	code, message := h.explain(api, err)
	if message != nil && len(*message) > messageBytesMax {
		cut := clip(*message)
		message = &cut
	}
	return code, message
}

const (
	// messageBytesMax bounds an error's text. Texts quote what the client sent,
	// which may fill a string of the protocol alone: with the words around it,
	// its 16-bit length would overflow and the whole answer be unreadable. Kafka
	// fails such an answer as a whole.
	messageBytesMax = 4096
	// stringBytesMax is what a string of the protocol holds.
	stringBytesMax = math.MaxInt16
)

// clip shortens a text to messageBytesMax, between two characters.
func clip(s string) string {
	const more = "..."
	end := messageBytesMax - len(more)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + more
}

// checkLength refuses a config whose name or value no answer of this broker
// could carry: flexible requests have room for more, and lists grow by APPEND.
func checkLength(name, value string) error {
	if len(name) > stringBytesMax || len(value) > stringBytesMax {
		return fail(kerr.InvalidConfig, "Value of configuration %.64s is too long: %d bytes, at most %d are allowed", name, len(value), stringBytesMax)
	}
	return nil
}

func (h *Handlers) explain(api string, err error) (int16, *string) {
	var (
		texted   *record.Error
		coded    *kerr.Error
		badValue *config.Error
		badRule  config.RuleError
	)
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &texted):
		if texted.Message != "" {
			return texted.Kerr.Code, &texted.Message
		}
		return texted.Kerr.Code, text(texted.Kerr)
	case errors.As(err, &coded):
		return coded.Code, text(coded)
	case errors.As(err, &badValue), errors.As(err, &badRule):
		message := err.Error()
		return kerr.InvalidConfig.Code, &message
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return kerr.RequestTimedOut.Code, text(kerr.RequestTimedOut)
	default:
		h.Logger.Error("request failed", "api", api, "error", err)
		return kerr.UnknownServerError.Code, text(kerr.UnknownServerError)
	}
}

// code is answer for the responses that have no place for a message.
func (h *Handlers) code(api string, err error) int16 {
	code, _ := h.answer(api, err)
	return code
}

// text is the message that Kafka puts beside a code that comes without one of
// its own; clients print it.
func text(code *kerr.Error) *string {
	if s, ok := kafkaTexts[code.Code]; ok {
		return &s
	}
	return &code.Description
}

// kafkaTexts are the default messages of Errors.java for the codes that these
// handlers give without a text of their own.
var kafkaTexts = map[int16]string{
	kerr.UnknownServerError.Code:          "The server experienced an unexpected error when processing the request.",
	kerr.UnknownTopicOrPartition.Code:     "This server does not host this topic-partition.",
	kerr.RequestTimedOut.Code:             "The request timed out.",
	kerr.InvalidTopicException.Code:       "The request attempted to perform an operation on an invalid topic.",
	kerr.TopicAlreadyExists.Code:          "Topic with this name already exists.",
	kerr.NotController.Code:               "This is not the correct controller for this cluster.",
	kerr.InvalidRequest.Code:              malformed,
	kerr.TopicDeletionDisabled.Code:       "Topic deletion is disabled.",
	kerr.UnknownTopicID.Code:              "This server does not host this topic ID.",
	kerr.ElectionNotNeeded.Code:           "Leader election not needed for topic partition.",
	kerr.PreferredLeaderNotAvailable.Code: "The preferred leader was not available.",
	kerr.EligibleLeadersNotAvailable.Code: "Eligible topic partition leaders are not available.",
	kerr.KafkaStorageError.Code:           "Disk error when trying to access log file on the disk.",
}

const malformed = "This most likely occurs because of a request being malformed by the client library or the message was sent to an incompatible broker. See the broker logs for more details."
