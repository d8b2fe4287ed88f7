package token

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The cache never holds more than it may, and never another entry than the last one of a hash.
func TestCacheIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(0, 9).Draw(t, "limit")
		c := newCache(limit)
		last := map[digest]*entry{}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			key := digest{rapid.Byte().Draw(t, "key") % 16}
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				last[key] = &entry{}
				c.put(&key, last[key])
			case 1:
				if found := c.get(&key); found != nil {
					require.Same(t, last[key], found)
				}
			default:
				c.drop(&key, last[key])
				delete(last, key)
				require.Nil(t, c.get(&key))
			}
			require.LessOrEqual(t, c.len(), max(limit, 2))
		}
	})
}
