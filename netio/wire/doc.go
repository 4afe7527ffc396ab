// Package wire holds Posthouse's own codecs of the Kafka protocol: request and
// response headers, and the two hot APIs, Produce (key 0, v3–v13) and Fetch
// (key 1, v4–v18). Every other API uses github.com/twmb/franz-go/pkg/kmsg.
//
// The codecs work in place. A decoded request holds slices of the frame it came
// from (names, ids, record batches); nothing is copied, and a decoder that is
// used again allocates nothing once its arrays have grown to the usual size.
// The frame must therefore outlive the decoded value; Reset drops the
// references before a value goes back to its pool. Encoders append to the
// caller's buffer.
//
// # Strictness
//
// A decoder follows the parsers that Kafka generates from its message
// definitions (clients/src/main/resources/common/message/*.json):
//
//   - any negative length of a nullable field is null, of any other field an error;
//   - an unknown tagged field is skipped, a known one in a version that does not
//     have it is an error, and a repeated one overwrites the first (KIP-482);
//   - a length or count that the remaining bytes cannot hold is an error before
//     anything is allocated for it.
//
// It is stricter in two places where Kafka would go on with misread data: the
// size of a known tagged field must be the size of its content, and the arrays of
// a message hold at most MaxElements elements together.
//
// Bytes behind the last field are ignored, as Kafka ignores them.
//
// Every error is a *DecodeError that names the message, field and byte position.
// No input makes a decoder panic. An encoder panics ("BUG: …") only for a
// version outside the range that this package serves.
package wire
