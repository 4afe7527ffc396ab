package loadgen

import "hash/crc32"

// A batch that goes out again and again differs in its header alone (length,
// count, timestamps, producer, sequence). The CRC of header and records is
// computed from the header's and the records' own, known beforehand, so that
// sending 1 MiB costs no pass over it:
//
//	crc(A‖B) = crc(A)·x^(8·|B|) + crc(B)   in GF(2)[x] modulo the polynomial
//
// as zlib's crc32_combine does.

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// crcPowers[k] is x^(2^k) modulo the polynomial, bits reflected.
var crcPowers = func() (t [40]uint32) {
	t[0] = 1 << 30
	for k := 1; k < len(t); k++ {
		t[k] = crcMultiply(t[k-1], t[k-1])
	}
	return t
}()

// crcMultiply multiplies two polynomials modulo the Castagnoli one.
func crcMultiply(a, b uint32) (product uint32) {
	for m := uint32(1) << 31; m != 0; m >>= 1 {
		if a&m != 0 {
			product ^= b
			if a&(m-1) == 0 {
				break
			}
		}
		b = b>>1 ^ crc32.Castagnoli&-(b&1)
	}
	return product
}

// crcShift is the factor that stands for n further bytes.
func crcShift(n int) uint32 {
	p := uint32(1) << 31
	for k := 3; n > 0; k, n = k+1, n>>1 {
		if n&1 != 0 {
			p = crcMultiply(crcPowers[k], p)
		}
	}
	return p
}

// crcJoin is the CRC of A‖B from those of A and of B and crcShift(len(B)).
func crcJoin(a, b, shift uint32) uint32 { return crcMultiply(shift, a) ^ b }
