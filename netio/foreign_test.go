package netio

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"
)

// TestForeignProtocols names what speaks to a listener by mistake.
func TestForeignProtocols(t *testing.T) {
	for first, want := range map[string]string{
		"GET ": "speaks HTTP", "POST": "speaks HTTP", "PRI ": "speaks HTTP", "\x16\x03\x01\x02": "speaks TLS", "\x16\x03\x03\x00": "speaks TLS",
	} {
		err := frameSizeError(int32(binary.BigEndian.Uint32([]byte(first))), 100<<20)
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", first, err)
		}
	}
	for _, size := range []int32{-1, 0, math.MaxInt32, 0x16020100} {
		if err := frameSizeError(size, 100<<20); strings.Contains(err.Error(), "speaks") {
			t.Errorf("%d: %v", size, err)
		}
	}
}
