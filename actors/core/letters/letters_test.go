package letters_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/core/letters"
)

func TestHead(t *testing.T) {
	for most, want := range map[int]string{-1: "", 0: "", 1: "a", 2: "a", 3: "a", 4: "a€", 5: "a€b", 6: "a€b"} {
		require.Equal(t, want, letters.Head("a€b", most), most)
		require.Equal(t, want, string(letters.Head([]byte("a€b"), most)), most)
	}
	require.Empty(t, letters.Head("\x80\x80\x80", 2), "no UTF-8")
	require.Equal(t, []string{"a€b", "a..."}, []string{letters.Shorten("a€b", 5), letters.Shorten("a€b", 3)})
	require.Equal(t, []bool{true, true, false}, []bool{letters.ASCII(""), letters.ASCII("a"), letters.ASCII("a€")})
}
