package turn

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Documents without a text take room too.
func TestTextsAreBoundedInNumber(t *testing.T) {
	kept := newTexts()
	for i := range 2 * maxTexts / minText {
		kept.keep(docText{id: strconv.Itoa(i), limit: 10})
	}
	require.LessOrEqual(t, len(kept.mu.known), maxTexts/minText)
	require.Equal(t, len(kept.mu.known), kept.mu.order.Len())
	_, found := kept.find(strconv.Itoa(2*maxTexts/minText-1), 10)
	require.True(t, found)
}
