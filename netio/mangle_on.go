//go:build invariants

package netio

// mangle overwrites memory that is given back, so that use after release
// shows. It leaves the tail of large buffers alone: touching it would make
// pages resident that never were.
func mangle(p []byte) {
	for i := range p[:min(len(p), 64<<10)] {
		p[i] = 0xdb
	}
}
