//go:build !invariants

package netio

// mangle is for builds with the tag invariants.
func mangle([]byte) {}
