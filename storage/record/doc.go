// Package record knows the bytes of a Kafka record batch (magic 2, KIP-98) and
// nothing else: a view of the header, the checks that a broker makes before it
// appends, the codecs, and the record framing inside.
//
// A [Batch] is a slice of somebody else's bytes. The hot path never copies it:
// [Policy.Check] validates a producer's batch in the frame it arrived in, the
// log stamps base offset and leader epoch in place (both lie outside the CRC),
// and the bytes go to the file. Iterating records, decompressing and building
// batches allocate, and belong to workers, tests and tools.
//
//	 0  8  baseOffset             27  8  baseTimestamp
//	 8  4  batchLength            35  8  maxTimestamp
//	12  4  partitionLeaderEpoch   43  8  producerId
//	16  1  magic (2)              51  2  producerEpoch
//	17  4  crc (CRC32C from 21)   53  4  baseSequence
//	21  2  attributes             57  4  records count
//	23  4  lastOffsetDelta        61  …  records, compressed as a whole
//
// A record inside is a run of zigzag varints: length, attributes (one byte),
// timestampDelta, offsetDelta, key length and key, value length and value, and
// a count of headers, each key length, key, value length, value. A length of
// −1 is null.
package record
