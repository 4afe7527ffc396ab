//go:build invariants

package storage

// poison mangles memory that goes back to a pool, so that use after release
// shows.
func poison(p []byte) {
	for i := range p {
		p[i] = 0xdb
	}
}

const invariants = true
