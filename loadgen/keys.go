package loadgen

import (
	"math"
	"math/rand/v2"
)

// keyPicker draws the numbers of keys; nil where records have none.
type keyPicker struct {
	rng   *rand.Rand
	count int64
	zipf  *zipf
	bytes int
}

func newKeyPicker(k *Keys, rng *rand.Rand) *keyPicker {
	switch k.Distribution {
	case "uniform":
		return &keyPicker{rng: rng, count: k.Count, bytes: k.Bytes}
	case "zipf":
		return &keyPicker{rng: rng, count: k.Count, bytes: k.Bytes, zipf: newZipf(k.Count, k.Skew)}
	}
	return nil
}

func (k *keyPicker) next() int64 {
	if k.zipf != nil {
		return k.zipf.next(k.rng) - 1
	}
	return k.rng.Int64N(k.count)
}

// appendKey writes the key of that number: hexadecimal digits.
func (k *keyPicker) appendKey(dst []byte, number int64) []byte {
	const digits = "0123456789abcdef"
	start := len(dst)
	for range k.bytes {
		dst = append(dst, '0')
	}
	for i := len(dst) - 1; i >= start && number > 0; i-- {
		dst[i] = digits[number&15]
		number >>= 4
	}
	return dst
}

// scatter spreads key numbers over partitions evenly (the finisher of
// SplitMix64): with zipf the frequent keys are the small numbers, which must
// not all be neighbours.
func scatter(key int64, n int) int {
	z := uint64(key) + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return int((z ^ z>>31) % uint64(n))
}

// zipf draws 1..n with probability proportional to rank^-skew, for any skew
// above 0, by rejection-inversion (W. Hörmann, G. Derflinger, "Rejection-
// inversion to generate variates from monotone discrete distributions", 1996).
// math/rand's needs a skew above 1, and the skews met in practice are around 1.
type zipf struct {
	n, skew     float64
	hFirst, hN  float64
	squeezeGain float64
}

func newZipf(n int64, skew float64) *zipf {
	z := &zipf{n: float64(n), skew: skew}
	z.hFirst = z.integral(1.5) - 1
	z.hN = z.integral(z.n + 0.5)
	z.squeezeGain = 2 - z.inverse(z.integral(2.5)-z.density(2))
	return z
}

func (z *zipf) next(rng *rand.Rand) int64 {
	for {
		u := z.hN + rng.Float64()*(z.hFirst-z.hN)
		x := z.inverse(u)
		k := math.Min(math.Max(math.Floor(x+0.5), 1), z.n)
		if k-x <= z.squeezeGain || u >= z.integral(k+0.5)-z.density(k) {
			return int64(k)
		}
	}
}

func (z *zipf) density(x float64) float64 { return math.Exp(-z.skew * math.Log(x)) }

// integral is that of density, and inverse its inverse; both are written so
// that a skew of 1 is no special case.
func (z *zipf) integral(x float64) float64 {
	logX := math.Log(x)
	return expm1Over((1-z.skew)*logX) * logX
}

func (z *zipf) inverse(x float64) float64 {
	t := math.Max(x*(1-z.skew), -1)
	return math.Exp(log1pOver(t) * x)
}

// expm1Over is (e^x − 1)/x, and log1pOver is log(1+x)/x, at and near 0 too.
func expm1Over(x float64) float64 {
	if math.Abs(x) > 1e-8 {
		return math.Expm1(x) / x
	}
	return 1 + x/2*(1+x/3*(1+x/4))
}

func log1pOver(x float64) float64 {
	if math.Abs(x) > 1e-8 {
		return math.Log1p(x) / x
	}
	return 1 - x*(0.5-x*(1.0/3-x/4))
}
