package suite

import (
	"math"
	"slices"
)

// Median is the middle value, or the mean of the two middle ones; NaN without values.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(values))
	mid := len(s) / 2
	if len(s)%2 == 1 {
		return s[mid]
	}
	return (s[mid-1] + s[mid]) / 2
}

// Spread is the lowest and the highest value; NaN without values.
func Spread(values []float64) (low, high float64) {
	if len(values) == 0 {
		return math.NaN(), math.NaN()
	}
	return slices.Min(values), slices.Max(values)
}

// Quantile is the smallest value that at least the share q (0 to 1) of the values does not exceed; NaN without values. It
// sorts values.
func Quantile[T ~int64 | ~float64](values []T, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	i := int(math.Ceil(q*float64(len(values)))) - 1
	return float64(values[min(max(i, 0), len(values)-1)])
}
