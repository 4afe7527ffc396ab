package wire

import "fmt"

// API keys that this package treats specially.
const (
	KeyProduce     int16 = 0
	KeyFetch       int16 = 1
	KeyApiVersions int16 = 18
)

// The served versions of the two hot APIs (both ends inclusive), and the first
// flexible one (KIP-482) of each.
const (
	ProduceMinVersion      int16 = 3
	ProduceMaxVersion      int16 = 13
	ProduceFlexibleVersion int16 = 9

	FetchMinVersion      int16 = 4
	FetchMaxVersion      int16 = 18
	FetchFlexibleVersion int16 = 12
)

// MaxElements bounds the elements of all arrays of one message, beyond what its
// bytes could hold: an empty topic is three bytes on the wire and 64 in memory, and
// a partition of a Produce six and, with what the engine keeps of it, some 350, so
// that the largest frame would otherwise be worth gigabytes. No client asks for
// as many partitions at once.
const MaxElements = 1 << 18

// maxRetained is the number of elements an array may keep when its owner goes
// back to a pool; one huge request must not hold its memory for ever.
const maxRetained = 4096

// checkProduce panics if version is not one this package encodes.
func checkProduce(version int16) {
	if version < ProduceMinVersion || version > ProduceMaxVersion {
		panic(fmt.Sprintf("BUG: wire: Produce v%d is not served", version))
	}
}

// checkFetch panics if version is not one this package encodes.
func checkFetch(version int16) {
	if version < FetchMinVersion || version > FetchMaxVersion {
		panic(fmt.Sprintf("BUG: wire: Fetch v%d is not served", version))
	}
}
