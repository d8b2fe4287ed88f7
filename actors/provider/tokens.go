package provider

import (
	"math"
	"strconv"
	"strings"
)

// maxTokens is more than any call can consume: contexts of models end far below.
const maxTokens = 100_000_000

// NoCount stands for a number of tokens that no call can have consumed, or for what is no number.
const NoCount = -1

// Tokens reads a number of tokens as a provider says it, in JSON; nothing and null are 0. NoCount: no call can have consumed so many.
// What is read so is believed, and charged.
func Tokens(raw string) int64 {
	raw = strings.Trim(raw, `"`)
	if raw == "" || raw == "null" {
		return 0
	}
	number, err := strconv.ParseFloat(raw, 64)
	if err != nil || !(number >= 0 && number <= maxTokens) {
		return NoCount
	}
	return int64(math.Ceil(number))
}

// Sum adds parts of one number of tokens.
func Sum(parts ...int64) (sum int64) {
	for _, part := range parts {
		if part < 0 || part > maxTokens {
			return NoCount
		}
		sum += part
	}
	return sum
}

// Believable says whether one call can have consumed as many tokens of each kind.
func Believable(counts ...int64) bool {
	for _, count := range counts {
		if count < 0 || count > maxTokens {
			return false
		}
	}
	return true
}
