//go:build invariants

package record

// poison mangles a buffer that goes back to its pool, so that a use after its
// release shows.
func poison(p []byte) {
	for i := range p {
		p[i] = 0xdb
	}
}
