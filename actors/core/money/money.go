// Package money is amounts of US dollars. They are whole numbers of nano-dollars everywhere, so that sums are exact; as text and
// as JSON they are decimal numbers of dollars.
package money

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// PerUSD is a dollar in nano-dollars.
const PerUSD = 1_000_000_000

// FromUSD returns dollars as nano-dollars; ok is false when that is no amount above 0.
func FromUSD(usd float64) (nano int64, ok bool) {
	amount := math.Round(usd * PerUSD)
	if !(amount >= 1 && amount < math.MaxInt64) {
		return 0, false
	}
	return int64(amount), true
}

// USD returns nano-dollars as dollars, rounded to what a float holds.
func USD(nano int64) float64 { return float64(nano) / PerUSD }

// Add adds a cost to a sum and stays at the largest number rather than wrap. A sum never falls.
func Add(sum, cost int64) int64 {
	if cost <= 0 {
		return sum
	}
	if sum > math.MaxInt64-cost {
		return math.MaxInt64
	}
	return sum + cost
}

// Append appends nano-dollars as a number of dollars, exactly: 1500000000 is 1.5.
func Append(dst []byte, nano int64) []byte {
	magnitude := uint64(nano)
	if nano < 0 {
		dst = append(dst, '-')
		magnitude = -magnitude
	}
	dst = strconv.AppendUint(dst, magnitude/PerUSD, 10)
	fraction := magnitude % PerUSD
	if fraction == 0 {
		return dst
	}
	dst = append(dst, '.')
	for unit := uint64(PerUSD / 10); fraction > 0; unit /= 10 {
		dst = append(dst, '0'+byte(fraction/unit))
		fraction %= unit
	}
	return dst
}

// Parse reads a decimal number of dollars, not below 0 and with at most nine decimals.
func Parse(text string) (nano int64, err error) {
	const decimals = 9
	problem := errors.New("needs an amount of US dollars such as 0.15, with at most nine decimals")
	whole, fraction, _ := strings.Cut(text, ".")
	if len(fraction) > decimals || whole == "" {
		return 0, problem
	}
	dollars, err := strconv.ParseUint(whole, 10, 33)
	if err != nil {
		return 0, problem
	}
	nanos, err := strconv.ParseUint(fraction+strings.Repeat("0", decimals-len(fraction)), 10, 32)
	if err != nil {
		return 0, problem
	}
	return int64(dollars*PerUSD + nanos), nil
}
